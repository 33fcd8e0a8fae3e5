"""Pages of runs: a new one, one run, and the buttons on it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from webapp.checkpoints.selectors import list_checkpoints
from webapp.metrics.export import FORMATS
from webapp.metrics.routing import MEASURES, dead_experts
from webapp.pages.access import require_operator
from webapp.pages.board import board_of
from webapp.pages.forms import RunForm, build_form
from webapp.pages.live import hub
from webapp.pages.summary import summarise
from webapp.pages.timeline import timeline_context
from webapp.runs import selectors, services, states
from webapp.runs.attempts import Account, goodput, list_attempts
from webapp.runs.models import Priority, Run
from zaya_model.config import RunConfig
from zaya_model.errors import ConfigError
from zaya_model.plan import count_parameters, estimate_memory
from zaya_model.presets import build, load_preset, preset_names, preset_summary, to_toml

_MOST_ATTEMPTS = 50


@require_http_methods(["GET", "POST"])
def new_run(request: HttpRequest) -> HttpResponse:
    """The form; a POST queues the run or shows what is wrong, with all that was typed."""
    require_operator(request.user, to="start runs")
    if request.method == "GET":
        return render(request, "runs/new.html", form_context(_empty_form(request)))
    form = build_form(preset_of(request.POST.get("preset", "")), request.POST)
    if not form.name.strip():
        form.name_error = "Give the run a name, so that you find it again."
    if form.config is not None and not form.has_errors:
        try:
            run = services.create_run(
                owner=request.user, name=form.name, preset=form.preset, config=form.config, tags=form.tag_list,
                notes=form.notes, priority=Priority(form.priority),
            )  # fmt: skip
        except ValidationError as error:
            form.general_errors += error.messages
        else:
            return redirect("run", run.pk)
    return render(request, "runs/new.html", form_context(form), status=422)


@require_POST
def plan_run(request: HttpRequest) -> HttpResponse:
    """What the form as typed would need, and what it changes of the run it comes from; asked while typing."""
    parent = get_run(int(request.POST["parent"])) if request.POST.get("parent", "").isdecimal() else None
    form = build_form(preset_of(request.POST.get("preset", "")), request.POST)
    return render(request, "runs/_plan.html", form_context(form, parent))


@require_GET
def run_page(request: HttpRequest, run_id: int) -> HttpResponse:
    """One run, live."""
    place = hub.place  # before the first row is read: the page is told of whatever comes after
    run = get_run(run_id)
    accounts = list_attempts(run, with_nodes=True)
    context = _head_context(request, run, accounts) | {
        "place": place,
        "board": board_of(request.user, run),
        "dead": dead_experts(run),
        "checkpoints": list_checkpoints(run),
        **timeline_context(request, run),
        **_attempts_context(accounts),
        "measures": MEASURES,
        "layers": range(run.config["model"]["num_hidden_layers"]),
        "config_toml": _toml(run),
        "differences": _from_preset(run),
        "export_kinds": list(FORMATS),
    }
    return render(request, "runs/run.html", context)


@require_GET
def run_fragment(request: HttpRequest, run_id: int, part: str) -> HttpResponse:
    """One part of the run's page, for the live stream to replace."""
    run = get_run(run_id)
    contexts: dict[str, Any] = {
        "head": lambda: _head_context(request, run, list_attempts(run)),
        "alert": lambda: {"dead": dead_experts(run)},
        "attempts": lambda: {"run": run, **_attempts_context(list_attempts(run, with_nodes=True))},
        "checkpoints": lambda: {
            "run": run,
            "may_resume": _may_resume(request, run),
            "checkpoints": list_checkpoints(run),
        },
        "timeline": lambda: timeline_context(request, run),
    }
    if part not in contexts:
        raise Http404(f"There is no part {part}.")
    return render(request, f"runs/_{part}.html", contexts[part]())


@require_POST
def stop_run(request: HttpRequest, run_id: int) -> HttpResponse:
    """The stop button."""
    return _act(request, run_id, services.request_stop)


@require_POST
def resume_run(request: HttpRequest, run_id: int) -> HttpResponse:
    """The start-again button."""
    return _act(request, run_id, services.resume_run)


@require_http_methods(["GET", "POST"])
def delete_run(request: HttpRequest, run_id: int) -> HttpResponse:
    """Asks for the run's name before it deletes it."""
    require_operator(request.user, to="delete runs")
    run = get_run(run_id)
    if request.method == "GET":
        return render(request, "runs/delete.html", {"run": run})
    if request.POST.get("name", "").strip() != run.name:
        error = f"Type the run's name as it is, {run.name}, or leave it alone."
        return render(request, "runs/delete.html", {"run": run, "error": error}, status=422)
    try:
        services.delete_run(run, actor=request.user)
    except states.NotAllowed as error:
        return render(request, "runs/delete.html", {"run": run, "error": str(error)}, status=409)
    messages.success(request, f"Run {run_id}, {run.name}, is deleted; its rows and files are being removed.")
    return redirect("runs")


def get_run(run_id: int) -> Run:
    """The run of this number. Raises Http404."""
    run = selectors.find_run(run_id)
    if run is None:
        raise Http404(f"There is no run {run_id}.")
    return run


def _act(request: HttpRequest, run_id: int, action: Any) -> HttpResponse:
    require_operator(request.user, to="stop or start runs")
    try:
        action(get_run(run_id), actor=request.user)
    except states.NotAllowed as error:
        messages.warning(request, str(error))
    return redirect("run", run_id)


def _empty_form(request: HttpRequest) -> RunForm:
    """A fresh form, with what was typed before another preset was chosen, or filled from another run."""
    kept = {name: request.GET[name] for name in ("name", "tags", "notes", "priority") if name in request.GET}
    like = request.GET.get("like", "")
    if like.isdecimal():
        run = get_run(int(like))
        kept = {"name": f"{run.name} again", "tags": ", ".join(run.tags), "priority": str(run.priority), **kept}
        return build_form(preset_of(run.preset), kept, known_config(run))
    return build_form(preset_of(request.GET.get("preset", "")), kept)


def known_config(run: Run) -> RunConfig | None:
    """The run's config, unless it is of a version this one does not know."""
    try:
        return build(run.config)
    except ConfigError:
        return None


def preset_of(name: str) -> str:
    """A preset that exists: the one of this name, or the smallest."""
    return name if name in preset_names() else preset_names()[0]


def form_context(form: RunForm, parent: Run | None = None) -> dict[str, Any]:
    """What the form's page and its plan show; of a fork also what differs from its parent."""
    context: dict[str, Any] = {
        "form": form,
        "parent": parent,
        "presets": [(name, preset_summary(name)) for name in preset_names()],
        "priorities": Priority.choices,
    }
    if form.config is not None:
        context |= {
            "parameters": count_parameters(form.config.model),
            "memory": estimate_memory(form.config),
            "tokens_per_step": form.config.tokens_per_step,
            "tokens": form.config.tokens_per_step * form.config.train.steps,
        }
        if parent is not None:
            context["changes"] = _differences(parent.config, form.config.model_dump(mode="json"))
    return context


def _head_context(request: HttpRequest, run: Run, accounts: Sequence[Account]) -> dict[str, Any]:
    return {
        "run": run,
        "summary": replace(summarise([run])[0], goodput=goodput(accounts)),
        "may_stop": request.user.can_operate and (states.may(run, "ask_to_stop") or states.may(run, "cancel")),
        "may_resume": _may_resume(request, run),
        "may_delete": request.user.can_operate and run.is_ended,
    }


def _may_resume(request: HttpRequest, run: Run) -> bool:
    return request.user.can_operate and states.may(run, "resume")


def _attempts_context(accounts: Sequence[Account]) -> dict[str, Any]:
    found = accounts[::-1]
    return {
        "attempts": found[:_MOST_ATTEMPTS],
        "num_earlier": max(0, len(found) - _MOST_ATTEMPTS),
        "has_replaced": any(account.lost_steps for account in found),
    }


def _toml(run: Run) -> str:
    try:
        return to_toml(build(run.config))
    except ConfigError as error:
        return f"# This config is of another version: {error}"


def _from_preset(run: Run) -> list[tuple[str, Any, Any]]:
    if run.preset not in preset_names():
        return []
    return _differences(load_preset(run.preset).model_dump(mode="json"), run.config)


def _differences(base: dict[str, Any], config: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Fields that differ: name, value in `base`, value in `config`."""
    return [
        (f"{section}.{name}", base.get(section, {}).get(name), value)
        for section, fields in config.items()
        for name, value in fields.items()
        if base.get(section, {}).get(name) != value
    ]
