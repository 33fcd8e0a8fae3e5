"""Make another run's checkpoint the first one of this run."""

import os
import shutil
from pathlib import Path

from zaya_model.checkpoint.manifest import NAME, folder_of, list_checkpoints, sync_folder, verify
from zaya_model.errors import CheckpointError


def adopt(folder: Path, run_dir: Path) -> int:
    """Link or copy a checkpoint into a run that has none yet; returns its step. Raises CheckpointError.

    Links cost no space and outlive the other run's own removal. The manifest comes last, so half an adoption is none.
    """
    if own := list_checkpoints(run_dir):
        return own[0][0]
    manifest = verify(folder)
    target = folder_of(run_dir, manifest.step)
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name in [*(file.name for file in manifest.files), NAME]:
            (target / name).unlink(missing_ok=True)
            try:
                os.link(folder / name, target / name)
            except OSError:
                shutil.copyfile(folder / name, target / name)
        sync_folder(target)
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be taken over: {error.strerror} ({error.filename}).") from error
    return manifest.step
