"""The table of runs: found by a query, with chosen columns in any order, kept as views; and actions on many."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_GET, require_POST

from webapp.fleet.selectors import usable_nodes
from webapp.metrics.keys import recent_keys
from webapp.pages.access import require_operator
from webapp.pages.summary import Summary, summarise
from webapp.preferences.selectors import saved_views
from webapp.preferences.services import forget_view, save_view
from webapp.runs import services, table
from webapp.runs.bulk import Outcome, act_on
from webapp.runs.models import Run
from webapp.runs.query import MOST_CHARACTERS, parse_query
from webapp.runs.query_terms import QueryError, field_names
from webapp.text import storable

PAGE_SIZE = 50
MOST_COLUMNS = 30
MOST_RUNS = 500
DEFAULT_COLUMNS = ("loss", "eval/loss", "router/max_violation", "tokens_per_second", "owner", "created")
TITLES = {
    "loss": "Loss", "eval/loss": "Held out", "router/max_violation": "Imbalance", "tokens_per_second": "Tokens/s",
    "owner": "Owner", "created": "Made",
}  # fmt: skip


@dataclass(frozen=True)
class Look:
    """What the address says of the table."""

    query: str
    columns: tuple[str, ...]
    sort: str
    page: int = 1

    @property
    def columns_are_chosen(self) -> bool:
        """Whether they are others than the usual ones."""
        return self.columns != DEFAULT_COLUMNS

    def address(self, **changes: Any) -> str:
        """This look with some of it changed, as what stands behind the ? of an address; the usual is left out."""
        look = {**self.__dict__, "page": 1, **changes}
        columns = [] if look["columns"] == DEFAULT_COLUMNS else look["columns"] or ("",)
        sort = "" if look["sort"] == "-created" else look["sort"]
        pairs = [("query", look["query"]), *(("column", name) for name in columns), ("sort", sort),
                 ("page", "" if look["page"] == 1 else look["page"])]  # fmt: skip
        return urlencode([(name, value) for name, value in pairs if value or name == "column"])


@require_GET
def run_list(request: HttpRequest) -> HttpResponse:
    """The runs a query finds; the rows alone when the page asks for what changed."""
    look = _look(request)
    try:
        wanted, problem = parse_query(look.query, user=request.user), ""
    except QueryError as error:
        wanted, problem = Q(pk__in=[]), str(error)
    first = (look.page - 1) * PAGE_SIZE
    found = table.read_page(wanted, sort=look.sort, first=first, count=PAGE_SIZE + 1)
    summaries = summarise(found[:PAGE_SIZE], filter(table.is_metric, look.columns))
    context = {
        "look": look,
        "problem": problem,
        "heads": [_head(name, look) for name in look.columns],
        "state_head": _head("state", look),
        "name_head": _head("name", look),
        "step_head": _head("step", look),
        "rows": [(summary, [_cell(summary, name) for name in look.columns]) for summary in summaries],
        "previous": look.address(page=look.page - 1) if look.page > 1 else None,
        "next": look.address(page=look.page + 1) if len(found) > PAGE_SIZE else None,
    }
    if "rows" in request.GET:
        return render(request, "runs/_rows.html", context)
    return render(request, "runs/list.html", {**context, **_frame(request, look)})


@require_POST
def act_on_runs(request: HttpRequest) -> HttpResponse:
    """Stop, resume or tag the selected runs; says of each that refused, why."""
    require_operator(request.user, to="change runs")
    actions = {
        "stop": ("asked to stop", lambda run: services.request_stop(run, actor=request.user)),
        "resume": ("queued again", lambda run: services.resume_run(run, actor=request.user)),
        "tag": ("tagged", lambda run: services.add_tags(run, request.POST.get("tag", "").split(","))),
    }
    did, action = actions.get(request.POST.get("action", ""), ("", None))
    numbers = [int(text) for text in request.POST.getlist("runs")[:MOST_RUNS] if text.isdecimal() and len(text) < 18]
    if action is None or not numbers:
        messages.warning(request, "Choose one or more runs, and what to do with them.")
    else:
        _report(request, did, act_on(Run.objects.filter(pk__in=numbers).order_by("pk"), action))
    return _back(request)


@require_POST
def keep_view(request: HttpRequest) -> HttpResponse:
    """Save the look of the table under a name."""
    try:
        view = save_view(request.user, request.POST.get("name", ""), request.POST.get("address", ""))
    except ValidationError as error:
        messages.warning(request, " ".join(error.messages))
        return _back(request)
    return redirect(f"/?{view.address}")


@require_POST
def delete_view(request: HttpRequest, view_id: int) -> HttpResponse:
    """Forget one of one's own views."""
    forget_view(request.user, view_id)
    return _back(request)


def _look(request: HttpRequest) -> Look:
    text = lambda name: storable(request.GET.get(name, ""))  # noqa: E731
    added = request.GET.get("add", "").split(",") if request.GET.get("add") else []
    columns = [storable(name)[:250].strip() for name in request.GET.getlist("column")]
    shown = (columns or [*DEFAULT_COLUMNS]) + [storable(name)[:250].strip() for name in added]
    page = request.GET.get("page", "")
    return Look(
        query=text("query")[: MOST_CHARACTERS + 1].strip(),
        columns=tuple(dict.fromkeys(filter(None, shown)))[:MOST_COLUMNS],
        sort=text("sort")[:250].strip() or "-created",
        page=min(max(1, int(page)), 100_000) if page.isascii() and page.isdecimal() and len(page) < 18 else 1,
    )


def _frame(request: HttpRequest, look: Look) -> dict[str, Any]:
    """What stands around the rows."""
    own = [("All", ""), ("Active", "query=state%3Aactive"), ("Mine", "query=owner%3Ame")]
    address = look.address()
    return {
        "address": address,
        "own_views": [(name, target, target == address) for name, target in own],
        "views": saved_views(request.user),
        "names": [*field_names(), *recent_keys()],
        "chips": [(name, look.address(columns=tuple(other for other in look.columns if other != name)))
                  for name in look.columns],
        "usual_columns": look.address(columns=DEFAULT_COLUMNS) if look.columns_are_chosen else None,
        "num_nodes": usable_nodes().count(),
    }  # fmt: skip


def _head(name: str, look: Look) -> dict[str, Any]:
    """A column's title, and the address that sorts by it: once more is the other way round."""
    way = {name: "ascending", f"-{name}": "descending"}.get(look.sort, "")
    return {
        "name": name,
        "title": TITLES.get(name, name),
        "way": way,
        "address": look.address(sort=f"-{name}" if way == "ascending" else name),
        "is_metric": table.is_metric(name),
    }


def _cell(summary: Summary, name: str) -> dict[str, Any]:
    kind = "metric" if table.is_metric(name) else "time" if name in table.TIMES else "setting"
    return {"title": TITLES.get(name, name), "kind": kind, "value": table.cell(summary.run, name, summary.values)}


def _report(request: HttpRequest, did: str, outcome: Outcome) -> None:
    if outcome.done:
        messages.success(request, f"{len(outcome.done)} run{'s' * (len(outcome.done) != 1)} {did}.")
    if outcome.refusals:
        shown = outcome.refusals[:5]
        more = len(outcome.refusals) - len(shown)
        messages.warning(request, f"Not possible: {' '.join(shown)}{f' And {more} more.' if more else ''}")


def _back(request: HttpRequest) -> HttpResponse:
    """To the table as it was."""
    address = f"/?{request.POST.get('back', '')}"
    return redirect(address if url_has_allowed_host_and_scheme(address, None) else "/")
