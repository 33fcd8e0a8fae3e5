"""Which data a run leaves out: batches after which training went wrong and went back.

Kept in the run folder, apart from the checkpoints, so that the data of any step is a function of the step alone, from
whatever checkpoint a run goes on.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from zaya_model.checkpoint.manifest import replace_text
from zaya_model.errors import DataError

_NAME = "skipped.json"


@dataclass(frozen=True)
class Skip:
    """From the step after `after_step` on, read `batches` further."""

    after_step: int
    batches: int


def read_skips(run_dir: Path) -> list[Skip]:
    """All of a run, oldest first. Raises DataError for a file that cannot be read."""
    path = run_dir / _NAME
    try:
        return [Skip(**entry) for entry in json.loads(path.read_text())]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path} cannot be read ({error}); without it the run would see other data.") from error


def add_skip(run_dir: Path, skip: Skip) -> None:
    """Put one more on disk, whole or not at all."""
    replace_text(run_dir / _NAME, json.dumps([asdict(each) for each in [*read_skips(run_dir), skip]]))


def copy_skips(origin: Path, run_dir: Path, *, up_to: int) -> None:
    """Leave out what another run left out until the step that this one begins with."""
    if not (run_dir / _NAME).exists():
        for skip in read_skips(origin):
            if skip.after_step <= up_to:
                add_skip(run_dir, skip)


def forget_skips(run_dir: Path) -> None:
    """A run that starts afresh reads all of its data."""
    (run_dir / _NAME).unlink(missing_ok=True)


def batch_of(skips: list[Skip], step: int) -> int:
    """The batch that the step after `step` steps done reads."""
    return step + sum(skip.batches for skip in skips if skip.after_step <= step)
