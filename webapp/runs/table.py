"""The table of runs: what a column is, what stands in it, and the order by any of them."""

from collections.abc import Mapping
from typing import Any

from django.db.models import F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Lower

from webapp.runs.models import Run
from webapp.runs.query_terms import config_fields

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


def sorted_runs(wanted: Q, sort: str) -> QuerySet[Run]:
    """Runs in the order of a column, "-" before it for the other way; runs without a value come last, newest first."""
    column = sort.removeprefix("-")
    runs = Run.objects.select_related("owner").filter(wanted)
    if is_metric(column):
        # NaN, to Postgres greater than all numbers, is no value to be the best by.
        newest = Run.objects.filter(pk=OuterRef("pk"), series__key=column, series__last_value__lte=float("inf"))
        key: Any = Subquery(newest.values("series__last_value")[:1])
    else:
        key = OWN[column][1] if column in OWN else F(f"config__{column.replace('.', '__')}")
    order = key.desc(nulls_last=True) if sort.startswith("-") else key.asc(nulls_last=True)
    # A run's number is never missing, and alone its index serves.
    return (
        runs.order_by("-pk" if sort.startswith("-") else "pk") if column == "created" else runs.order_by(order, "-pk")
    )
