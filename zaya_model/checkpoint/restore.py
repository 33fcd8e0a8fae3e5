"""Find the newest checkpoint that is whole, saying why a newer one is not, and read it."""

from dataclasses import dataclass, field
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from zaya_model.checkpoint.manifest import Manifest, folder_of, list_checkpoints, verify
from zaya_model.errors import CheckpointError


@dataclass
class Found:
    """A whole checkpoint, or none, and a sentence for each newer one that was passed over."""

    manifest: Manifest | None = None
    folder: Path | None = None
    refused: list[str] = field(default_factory=list)


def find_checkpoint(run_dir: Path, step: int | None = None) -> Found:
    """The newest whole checkpoint, or the one of `step`. Raises CheckpointError when that very one is not whole."""
    if step is not None:
        folder = folder_of(run_dir, step)
        if not folder.is_dir():
            have = ", ".join(str(number) for number, _ in list_checkpoints(run_dir)) or "none"
            raise CheckpointError(f"There is no checkpoint of step {step}; there are: {have}.")
        return Found(verify(folder), folder)
    found = Found()
    for _, folder in list_checkpoints(run_dir):
        try:
            found.manifest, found.folder = verify(folder), folder
            return found
        except CheckpointError as error:
            found.refused.append(str(error))
    return found


def read_tensors(folder: Path, manifest: Manifest) -> dict[str, Tensor]:
    """Read every tensor of a checkpoint onto the CPU. Raises CheckpointError."""
    tensors: dict[str, Tensor] = {}
    for file in manifest.files:
        try:
            tensors |= load_file(folder / file.name)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"{folder.name}: {file.name} cannot be read ({error}).") from error
    return tensors
