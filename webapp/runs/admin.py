"""Runs in the console: to look at, to stop and to resume; states move by the services alone."""

from collections.abc import Callable

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin, TabularInline

from webapp.runs import services
from webapp.runs.models import Attempt, Run
from webapp.runs.states import NotAllowed


class AttemptInline(TabularInline):
    """Every start of the run."""

    model = Attempt
    fields = readonly_fields = ("number", "from_step", "outcome", "reason", "created_at", "ended_at")
    extra, can_delete = 0, False

    def has_add_permission(self, request: HttpRequest, obj: Run | None = None) -> bool:
        return False


@admin.register(Run)
class RunAdmin(ModelAdmin):
    """Name, tags, notes and priority may be edited; what happened may not."""

    list_display = ("id", "name", "state", "step", "owner", "priority", "created_at")
    list_display_links = ("id", "name")
    list_filter = ("state", "preset", "priority")
    search_fields = ("name", "owner__username")
    list_select_related = ("owner",)
    show_full_result_count = False
    fields = ("name", "tags", "notes", "priority", "owner", "preset", "state", "reason", "step", "restarts",
              "created_at", "queued_at", "started_at", "ended_at", "config")  # fmt: skip
    readonly_fields = fields[4:]
    inlines = (AttemptInline,)
    actions = ("stop", "resume")

    @admin.action(description="Stop: save a checkpoint and end")
    def stop(self, request: HttpRequest, runs: QuerySet[Run]) -> None:
        self._each(request, runs, services.request_stop)

    @admin.action(description="Start again from the last checkpoint")
    def resume(self, request: HttpRequest, runs: QuerySet[Run]) -> None:
        self._each(request, runs, services.resume_run)

    def _each(self, request: HttpRequest, runs: QuerySet[Run], action: Callable) -> None:
        for run in runs:
            try:
                action(run, actor=request.user)
            except NotAllowed as error:
                messages.warning(request, str(error))

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Run | None = None) -> bool:
        return False
