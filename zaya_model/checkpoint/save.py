"""Write the state beside the training: a copy is taken at once, a thread writes, verifies and prunes.

saving     the copy was taken; the training goes on
durable    every file and the manifest are on disk
verified   every file was read back and its checksum compared
failed     something could not be written; the training goes on, the next save is tried
removed    pruned, after a newer one was good
"""

import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from zaya_model.checkpoint.manifest import (
    Manifest,
    describe,
    folder_of,
    list_checkpoints,
    read_manifest,
    sync_folder,
    verify,
    write_manifest,
)
from zaya_model.config import RunConfig
from zaya_model.errors import CheckpointError

# (step, status, details): what the journal is told.
Report = Callable[..., None]


class Saver:
    """Save checkpoints of one run; at most one is being written, a second waits for it."""

    def __init__(self, run_dir: Path, config: RunConfig, report: Report) -> None:
        self.run_dir, self.config, self.report = run_dir, config, report
        self._writer: threading.Thread | None = None

    def save(self, step: int, state: Mapping[str, Tensor]) -> float:
        """Copy the state and have it written; returns the seconds the training stood still."""
        start = time.perf_counter()
        self.wait()
        copies = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in state.items()}
        stall = time.perf_counter() - start
        self.report(step, "saving", stall_seconds=stall)
        self._writer = threading.Thread(target=self._write, args=(step, copies, stall), name="checkpoint")
        self._writer.start()
        return stall

    def wait(self) -> None:
        """Wait until nothing is being written."""
        if self._writer is not None:
            self._writer.join()
            self._writer = None

    def _write(self, step: int, tensors: dict[str, Tensor], stall: float) -> None:
        start, folder = time.perf_counter(), folder_of(self.run_dir, step)
        measured: dict[str, Any] = {"stall_seconds": stall}
        try:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            path = folder / "state.safetensors"
            save_file(tensors, path)
            _flush(path)
            manifest = Manifest(step, self.config.model_dump(mode="json"), [describe(path)])
            write_manifest(folder, manifest)
            sync_folder(folder.parent)
            measured |= {"bytes": manifest.bytes, "seconds": time.perf_counter() - start}
            self.report(step, "durable", **measured)
            if self.config.checkpoint.verify:
                verify(folder)
                self.report(step, "verified", **measured)
            self._prune(step)
        except (OSError, CheckpointError, RuntimeError) as error:
            # safetensors reports a full disk as a RuntimeError of its own.
            self.report(step, "failed", reason=str(error), **measured)

    def _prune(self, newest: int) -> None:
        """Remove what is older than the newest kept ones; manifests go first, so half a removal is no checkpoint."""
        whole = [(step, folder) for step, folder in list_checkpoints(self.run_dir) if _has_manifest(folder)]
        for step, folder in whole[self.config.checkpoint.keep_last :]:
            if step < newest:
                (folder / "manifest.json").unlink()
                shutil.rmtree(folder, ignore_errors=True)
                self.report(step, "removed")


def _has_manifest(folder: Path) -> bool:
    try:
        read_manifest(folder)
    except CheckpointError:
        return False
    return True


def _flush(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
