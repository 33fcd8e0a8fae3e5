"""Several runs side by side: names that tell them apart, the fields in which their configs differ, groups."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from webapp.runs.models import Run
from webapp.runs.query_terms import config_fields

MOST_RUNS = 50


def runs_to_compare(numbers: Sequence[int]) -> list[Run]:
    """The runs of these numbers in their order; those that do not exist are left out."""
    found = Run.objects.select_related("owner").in_bulk(list(dict.fromkeys(numbers))[:MOST_RUNS])
    return [found[number] for number in dict.fromkeys(numbers) if number in found]


def labels(runs: Sequence[Run]) -> list[str]:
    """A run's name, with its number where another has the same."""
    times = Counter(run.name for run in runs)
    return [run.name if times[run.name] == 1 else f"{run.name} #{run.pk}" for run in runs]


@dataclass(frozen=True)
class FieldRow:
    """One field of the config and its value in each run."""

    name: str
    values: list[Any]

    @property
    def is_different(self) -> bool:
        """Whether not all runs have the same."""
        return any(value != self.values[0] or type(value) is not type(self.values[0]) for value in self.values)


def config_rows(runs: Sequence[Run]) -> list[FieldRow]:
    """Every field that any of the runs' configs has; None where one lacks it."""
    names = dict.fromkeys(
        f"{section}.{name}" for run in runs for section, fields in run.config.items() for name in fields
    )
    return [FieldRow(name, [_value(run, name) for run in runs]) for name in names]


def differing_rows(runs: Sequence[Run]) -> list[FieldRow]:
    """The fields in which the runs differ."""
    return [row for row in config_rows(runs) if row.is_different]


def group_names(runs: Sequence[Run]) -> list[str]:
    """What the runs can be grouped by: tag, preset, owner, and the fields of their configs that differ."""
    fields = config_fields()
    return ["tag", "preset", "owner", *(row.name for row in differing_rows(runs) if row.name in fields)]


def group_of(run: Run, by: str) -> str:
    """The name of the group a run is in; tags that are together are one group."""
    if by == "tag":
        return ", ".join(sorted(run.tags)) or "no tag"
    if by in ("preset", "owner"):
        return run.preset if by == "preset" else run.owner.username
    return f"{by.split('.')[-1]} {_value(run, by)}"


def _value(run: Run, name: str) -> Any:
    section, _, field = name.partition(".")
    return run.config.get(section, {}).get(field)
