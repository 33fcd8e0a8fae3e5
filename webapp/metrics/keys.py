"""Which metrics runs have, for completion and for comparing."""

from collections.abc import Iterable

from webapp.metrics.models import Series
from webapp.runs.models import Run

_RECENT_RUNS = 20


def keys_of(runs: Iterable[Run]) -> list[str]:
    """Keys that any of these runs logged, in the order of the alphabet."""
    return list(Series.objects.filter(run__in=runs).order_by("key").values_list("key", flat=True).distinct())


def recent_keys() -> list[str]:
    """Keys of the newest runs: what one is likely to ask for."""
    return keys_of(Run.objects.order_by("-pk")[:_RECENT_RUNS])
