"""Users with their roles, and tokens, in the console."""

from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.http import HttpRequest
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from webapp.accounts.models import ApiToken, User
from webapp.accounts.services import create_token

# Roles say what one may do; groups would say it a second time.
admin.site.unregister(Group)


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):
    """People and scripts."""

    form, add_form, change_password_form = UserChangeForm, UserCreationForm, AdminPasswordChangeForm
    list_display = ("username", "role", "is_superuser", "is_active", "last_login")
    list_filter = ("role", "is_superuser", "is_active")
    fieldsets = (
        (None, {"fields": ("username", "password")}),
        ("Who", {"fields": ("first_name", "last_name", "email")}),
        ("May", {"fields": ("role", "is_active", "is_staff", "is_superuser")}),
    )
    add_fieldsets = ((None, {"fields": ("username", "role", "usable_password", "password1", "password2")}),)
    filter_horizontal = ()


@admin.register(ApiToken)
class ApiTokenAdmin(ModelAdmin):
    """Tokens: made here, their text shown once; revoked by deleting."""

    list_display = ("name", "user", "prefix", "created_at", "last_used_at")
    search_fields = ("name", "user__username")
    fields = ("user", "name")

    def save_model(self, request: HttpRequest, obj: ApiToken, form: object, change: bool) -> None:
        made, text = create_token(user=obj.user, name=obj.name)
        obj.pk = made.pk
        messages.success(request, f"Copy the token now, it is not shown again: {text}")

    def has_change_permission(self, request: HttpRequest, obj: ApiToken | None = None) -> bool:
        return False
