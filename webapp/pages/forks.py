"""Going on from a chosen checkpoint: the same run again, or a new one with changes."""

from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from webapp.checkpoints import services
from webapp.pages.access import require_operator
from webapp.pages.forms import RunForm, add_problems, build_form
from webapp.pages.runs import form_context, get_run, known_config, preset_of
from webapp.runs.models import Priority, Run
from webapp.runs.states import NotAllowed
from zaya_model.errors import ConfigError


@require_POST
def resume_from(request: HttpRequest, run_id: int, step: int) -> HttpResponse:
    """The button of a checkpoint that lets its run go on from there."""
    require_operator(request.user, to="start runs")
    try:
        services.resume_from(get_run(run_id), step, actor=request.user)
    except NotAllowed as error:
        messages.warning(request, str(error))
    return redirect("run", run_id)


@require_http_methods(["GET", "POST"])
def fork_run(request: HttpRequest, run_id: int, step: int) -> HttpResponse:
    """The form of a new run that begins with a checkpoint; it shows what differs from the run it comes from."""
    require_operator(request.user, to="start runs")
    parent = get_run(run_id)
    try:
        services.usable_checkpoint(parent, step)
        if request.method == "GET":
            return render(request, "runs/new.html", _context(_first_form(parent, step), parent, step))
        form = build_form(preset_of(parent.preset), request.POST)
        if run := _queue(request, form, parent, step):
            return redirect("run", run.pk)
    except NotAllowed as error:
        messages.warning(request, str(error))
        return redirect("run", run_id)
    return render(request, "runs/new.html", _context(form, parent, step), status=422)


def _queue(request: HttpRequest, form: RunForm, parent: Run, step: int) -> Run | None:
    if not form.name.strip():
        form.name_error = "Give the run a name, so that you find it again."
    if form.config is None or form.has_errors:
        return None
    try:
        return services.fork_run(
            parent, step, owner=request.user, name=form.name, config=form.config, tags=form.tag_list, notes=form.notes,
            priority=Priority(form.priority),
        )  # fmt: skip
    except ConfigError as error:
        add_problems(form, error.problems)
    except ValidationError as error:
        form.general_errors += error.messages
    return None


def _first_form(parent: Run, step: int) -> RunForm:
    typed = {"name": f"{parent.name} from {step}", "tags": ", ".join(parent.tags), "priority": str(parent.priority)}
    return build_form(preset_of(parent.preset), typed, known_config(parent))


def _context(form: RunForm, parent: Run, step: int) -> dict[str, Any]:
    action = reverse("fork-run", args=(parent.pk, step))
    return {**form_context(form, parent), "step": step, "action": action}
