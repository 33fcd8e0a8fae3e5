"""The table of runs: what a column is, what stands in it, and the order by any of them."""

from collections.abc import Mapping
from typing import Any

from django.db.models import F, Q, QuerySet, Subquery
from django.db.models.functions import Lower

from webapp.runs.models import Run
from webapp.runs.query_terms import config_fields, series_of_outer_run

# A run's own columns, by the name they have in queries: the attribute shown and the expression sorted by.
OWN = {
    "name": ("name", Lower("name")),
    "owner": ("owner.username", F("owner__username")),
    "preset": ("preset", F("preset")),
    "state": ("state", F("state")),
    "step": ("step", F("step")),
    "restarts": ("restarts", F("restarts")),
    "priority": ("priority", F("priority")),
    "created": ("created_at", F("pk")),
    "started": ("started_at", F("started_at")),
    "ended": ("ended_at", F("ended_at")),
}
TIMES = ("created", "started", "ended")


def is_metric(column: str) -> bool:
    """Whether a column shows the newest value of a scalar: whatever is no field of the run or of its config."""
    return column not in OWN and column not in config_fields()


def cell(run: Run, column: str, values: Mapping[str, float]) -> Any:
    """What stands in a run's row; `values` are its newest scalars by key. None where there is nothing."""
    if column in OWN:
        value: Any = run
        for name in OWN[column][0].split("."):
            value = getattr(value, name)
        return value
    if column in config_fields():
        section, name = column.split(".")
        return run.config.get(section, {}).get(name)
    return values.get(column)


def read_page(wanted: Q, *, sort: str, first: int, count: int) -> list[Run]:
    """Runs in the order of a column, "-" before it for the other way; runs without a value come last, newest first.

    Numbers are sorted first, rows are read then: configs are long, and sorting would carry them all along.
    """
    numbers = list(_sorted(Run.objects.filter(wanted), sort).values_list("pk", flat=True)[first : first + count])
    found = Run.objects.select_related("owner").in_bulk(numbers)
    return [found[number] for number in numbers if number in found]


def _sorted(runs: QuerySet[Run], sort: str) -> QuerySet[Run]:
    column = sort.removeprefix("-")
    if column == "created":  # by number, which is never missing and has an index
        return runs.order_by("-pk" if sort.startswith("-") else "pk")
    if column in OWN:
        key: Any = OWN[column][1]
    elif column in config_fields():
        key = F(f"config__{column.replace('.', '__')}")
    else:
        # NaN, to Postgres greater than all numbers, is no value to be the best by.
        newest = series_of_outer_run().filter(key=column, last_value__lte=float("inf"))
        key = Subquery(newest.values("last_value")[:1])
    return runs.order_by(key.desc(nulls_last=True) if sort.startswith("-") else key.asc(nulls_last=True), "-pk")
