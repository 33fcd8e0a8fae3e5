"""Make another run's checkpoint the first one of this run."""

import os
import shutil
from pathlib import Path

from zaya_model.checkpoint.keep import whole_manifest
from zaya_model.checkpoint.manifest import NAME, folder_of, list_checkpoints, verify, write_manifest
from zaya_model.errors import CheckpointError


def adopt(folder: Path, run_dir: Path) -> int:
    """Link or copy a checkpoint into a run that has none yet; returns its step. Raises CheckpointError.

    Links cost no space and outlive the other run's own removal. The manifest comes last, so half an adoption is none
    and is done again.
    """
    for step, own in list_checkpoints(run_dir):
        if whole_manifest(own) is not None:
            return step
    manifest = verify(folder)
    target = folder_of(run_dir, manifest.step)
    try:
        target.mkdir(parents=True, exist_ok=True)
        (target / NAME).unlink(missing_ok=True)
        for file in manifest.files:
            _take(folder / file.name, target / file.name)
        write_manifest(target, manifest)
    except OSError as error:
        raise CheckpointError(f"{folder} cannot be taken over: {error.strerror} ({error.filename}).") from error
    return manifest.step


def _take(file: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    try:
        os.link(file, target)
    except OSError:
        shutil.copyfile(file, target)
        with target.open("rb") as copy:
            os.fsync(copy.fileno())
