"""Which part of which attempt, and where its files are."""

from dataclasses import dataclass, replace
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
    def exit_code(self) -> int | None:
        """How it ended, negative for a signal; None when nobody noted it."""
        try:
            code = int(self.exit_file.read_text())
        except (OSError, ValueError):
            return None
        return 128 - code if code > 128 else code

    @property
    def ended_at(self) -> float:
        """When that was noted, in seconds since 1970; 0 when it was not."""
        try:
            return self.exit_file.stat().st_mtime
        except OSError:
            return 0.0

    @property
    def log(self) -> Path:
        return self.run_dir / "logs" / f"{self.name}.log"

    @property
    def launcher_log(self) -> Path:
        """What a batch system says of the whole attempt."""
        return self.run_dir / "logs" / f"attempt-{self.attempt:04d}-launcher.log"

    @property
    def stop_file(self) -> Path:
        return self.run_dir / "stop"


def place_of(placement: "Placement", runs_dir: Path) -> Place:
    """Where on this machine a placement's files are."""
    return Place(runs_dir / str(placement.attempt.run_id), placement.attempt.number, placement.rank)


def places_of(placement: "Placement", runs_dir: Path) -> list[Place]:
    """The places of all nodes a placement stands for: of a gateway, those of the whole run."""
    place = place_of(placement, runs_dir)
    if not placement.node.is_gateway:
        return [place]
    return [replace(place, node_rank=rank) for rank in range(placement.attempt.run.config["parallel"]["nodes"])]


def never_began(placement: "Placement") -> bool:
    """Whether a start that was claimed is overdue: whoever claimed it died before it wrote anything down."""
    return placement.started_at is not None and timezone.now() - placement.started_at > _START_PATIENCE
