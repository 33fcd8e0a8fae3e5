"""The page of one's own account: password and API tokens."""

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import PasswordChangeForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from webapp.accounts.services import create_token
from webapp.text import storable


@require_GET
def account(request: HttpRequest) -> HttpResponse:
    """Who I am, my tokens, my password."""
    return _page(request, PasswordChangeForm(request.user))


@require_POST
def add_token(request: HttpRequest) -> HttpResponse:
    """Make a token and show it this once."""
    name = storable(request.POST.get("name", "")).strip()[:100]
    if not name:
        messages.warning(request, "Give the token a name, so that you know later what it is for.")
        return redirect("account")
    _, text = create_token(user=request.user, name=name)
    return _page(request, PasswordChangeForm(request.user), new_token=text)


@require_POST
def revoke_token(request: HttpRequest, token_id: int) -> HttpResponse:
    """End one of my tokens."""
    request.user.tokens.filter(pk=token_id).delete()
    messages.success(request, "The token no longer works.")
    return redirect("account")


@require_POST
def change_password(request: HttpRequest) -> HttpResponse:
    """Change my password and stay logged in."""
    form = PasswordChangeForm(request.user, request.POST)
    if not form.is_valid():
        return _page(request, form, status=422)
    update_session_auth_hash(request, form.save())
    messages.success(request, "Your password is changed.")
    return redirect("account")


def _page(request: HttpRequest, form: PasswordChangeForm, *, new_token: str = "", status: int = 200) -> HttpResponse:
    context = {"password_form": form, "tokens": request.user.tokens.all(), "new_token": new_token}
    return render(request, "account/account.html", context, status=status)
