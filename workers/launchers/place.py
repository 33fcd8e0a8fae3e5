"""Which part of which attempt, and where its files are."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from django.utils import timezone

if TYPE_CHECKING:
    # For its name alone: trainers are also ended where Django was never set up.
    from webapp.runs.models import Placement

_START_PATIENCE = timedelta(seconds=30)


@dataclass(frozen=True)
class Place:
    """Which part of which attempt, in which folder."""

    run_dir: Path
    attempt: int
    node_rank: int

    @property
    def name(self) -> str:
        """The stem all files of this part share."""
        return f"attempt-{self.attempt:04d}-node-{self.node_rank:04d}"

    @property
    def record(self) -> Path:
        return self.run_dir / "processes" / f"{self.name}.json"

    @property
    def exit_file(self) -> Path:
        return self.run_dir / "processes" / f"{self.name}.exit"

    @property
    def log(self) -> Path:
        return self.run_dir / "logs" / f"{self.name}.log"

    @property
    def stop_file(self) -> Path:
        return self.run_dir / "stop"


def place_of(placement: "Placement", runs_dir: Path) -> Place:
    """Where on this machine a placement's files are."""
    return Place(runs_dir / str(placement.attempt.run_id), placement.attempt.number, placement.rank)


def never_began(placement: "Placement") -> bool:
    """Whether a start that was claimed is overdue: whoever claimed it died before it wrote anything down."""
    return placement.started_at is not None and timezone.now() - placement.started_at > _START_PATIENCE
