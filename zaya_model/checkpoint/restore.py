"""Find the newest checkpoint that is whole, saying why a newer one is not, and read it."""

from collections.abc import Set
from dataclasses import dataclass, field
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from zaya_model.checkpoint.manifest import Manifest, folder_of, list_checkpoints, read_manifest, verify
from zaya_model.errors import CheckpointError
from zaya_model.parallel.pieces import join


@dataclass(frozen=True)
class Refused:
    """A checkpoint that was passed over, and why."""

    step: int
    reason: str


@dataclass
class Found:
    """A whole checkpoint, or none, and each newer one that was passed over."""

    manifest: Manifest | None = None
    folder: Path | None = None
    refused: list[Refused] = field(default_factory=list)


def find_checkpoint(run_dir: Path, step: int | None = None, *, is_verified: bool = False) -> Found:
    """The newest whole checkpoint, or the one of `step`. Raises CheckpointError when that very one is not whole.

    With `is_verified` somebody else read its files and compared them already.
    """
    if step is not None:
        folder = folder_of(run_dir, step)
        if not folder.is_dir():
            have = ", ".join(str(number) for number, _ in list_checkpoints(run_dir)) or "none"
            raise CheckpointError(f"There is no checkpoint of step {step}; there are: {have}.")
        return Found(read_manifest(folder) if is_verified else verify(folder), folder)
    found = Found()
    for number, folder in list_checkpoints(run_dir):
        try:
            found.manifest, found.folder = verify(folder), folder
            return found
        except CheckpointError as error:
            found.refused.append(Refused(number, str(error)))
    return found


def set_aside_newer(run_dir: Path, step: int, attempt: int, *, keep: Set[int] = frozenset()) -> list[int]:
    """Move checkpoints newer than `step` out of the way: they belong to a course of the run that is given up.

    Without this a later start would take up the old course. Returns their steps, newest first.
    """
    moved = []
    for number, folder in list_checkpoints(run_dir):
        if number > step and number not in keep:
            target = folder.parent / "aside" / f"{folder.name}-before-attempt-{attempt:04d}"
            target.parent.mkdir(exist_ok=True)
            folder.rename(target)
            moved.append(number)
    return moved


def read_tensors(folder: Path, manifest: Manifest) -> dict[str, Tensor]:
    """Read every tensor of a checkpoint onto the CPU, whole however many ranks wrote it. Raises CheckpointError."""
    tensors: dict[str, Tensor] = {}
    for file in manifest.files:
        try:
            tensors |= load_file(folder / file.name)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"{folder.name}: {file.name} cannot be read ({error}).") from error
    return join(tensors)
