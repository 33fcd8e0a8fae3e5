"""Write the state beside the training: a copy is taken at once, threads of all ranks write, the first one concludes.

saving     the copy was taken; the training goes on
durable    every file and the manifest are on disk
verified   every file was read back and its checksum compared
failed     something could not be written; the training goes on, the next save is tried
removed    pruned, after a newer one was good

Each rank writes its share of the tensors and, when that is on disk, a note with its checksum. The first rank waits for
all notes and writes the manifest: the ranks meet in the folder alone, no message can hang in a background thread.
"""

import json
import math
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from torch import Tensor, empty

from zaya_model.checkpoint.keep import prune, whole_manifest
from zaya_model.checkpoint.manifest import (
    File,
    Manifest,
    folder_of,
    replace_text,
    sync_folder,
    verify,
    write_manifest,
)
from zaya_model.checkpoint.shard import write_shard
from zaya_model.config import RunConfig
from zaya_model.errors import CheckpointError
from zaya_model.parallel.pieces import share_out

# (step, status, details): what the journal is told.
Report = Callable[..., None]
_PATIENCE_SECONDS = 600.0
_POLL_SECONDS = 0.02
_FAILURES = (OSError, CheckpointError, RuntimeError, ValueError)
# Beside a busy trainer a writer gets a thirtieth of its share of a core; where cores are idle it costs nothing.
_NICENESS = 15


class Saver:
    """Save checkpoints of one run; at most one is being written, a second waits for it."""

    def __init__(
        self, run_dir: Path, config: RunConfig, report: Report, *, rank: int = 0, world_size: int = 1, attempt: int = 1
    ) -> None:
        self.run_dir, self.config, self.report = run_dir, config, report
        self.rank, self.world_size, self.attempt = rank, world_size, attempt
        self._writer: threading.Thread | None = None
        self._copies: dict[str, Tensor] = {}

    def save(
        self, step: int, shared: Mapping[str, Tensor], own: Mapping[str, Tensor] | None = None, *,
        metrics: Mapping[str, float] | None = None,
    ) -> float:  # fmt: skip
        """Copy the state and have it written; returns the seconds the training stood still.

        Of what all ranks share each one writes a part, what is its `own` it writes whole. `metrics` are what was
        measured at this step. Every rank calls it at the same step.
        """
        start = time.perf_counter()
        self.wait()
        part = share_out(shared, lambda name: shared[name].nbytes, self.world_size)[self.rank]
        mine = {name: shared[name] for name in part} | dict(own or {})
        for name, tensor in mine.items():
            self._copy(name, tensor.detach())
        stall = time.perf_counter() - start
        if self.rank == 0:
            self.report(step, "saving", stall_seconds=stall)
        copies = {name: self._copies[name] for name in mine}
        self._writer = threading.Thread(
            target=self._write, args=(step, copies, stall, _numbers(metrics or {})), name="checkpoint"
        )
        self._writer.start()
        return stall

    @property
    def is_writing(self) -> bool:
        """Whether this rank is still writing the last save."""
        return self._writer is not None and self._writer.is_alive()

    def wait(self, seconds: float | None = None) -> None:
        """Wait until nothing is being written, or at most so long."""
        if self._writer is not None:
            self._writer.join(seconds)
            self._writer = self._writer if self._writer.is_alive() else None

    def _copy(self, name: str, tensor: Tensor) -> None:
        """Copy onto the CPU, into the buffer of the last save where there is one: fresh memory is slow to fill."""
        buffer = self._copies.get(name)
        if buffer is None or buffer.shape != tensor.shape:
            buffer = self._copies[name] = empty(tensor.shape, dtype=tensor.dtype, pin_memory=tensor.is_cuda)
        buffer.copy_(tensor)

    def _write(self, step: int, tensors: dict[str, Tensor], stall: float, metrics: dict[str, float]) -> None:
        _step_aside()
        start, folder = time.perf_counter(), folder_of(self.run_dir, step)
        try:
            note = asdict(self._write_share(folder, tensors))
        except _FAILURES as error:
            note = {"reason": _reason(error)}
            # What is left of a part that did not fit would keep the disk full, for the journal too.
            with suppress(OSError):
                self._part_path(folder).unlink()
        if self.rank:
            # A rank that can't even leave a note is found out by the first one's patience.
            self._try_note(folder, note)
            return
        measured: dict[str, object] = {"stall_seconds": stall}
        try:
            files = [_file_of(note), *(_file_of(self._wait_for_note(folder, rank)) for rank in self._others())]
            manifest = Manifest(step, self.config.model_dump(mode="json"), files, metrics)
            write_manifest(folder, manifest)
            sync_folder(folder.parent)
            _remove_strangers(folder, manifest)
            measured |= {"bytes": manifest.bytes, "seconds": time.perf_counter() - start}
            self.report(step, "durable", **measured)
            if self.config.checkpoint.verify:
                verify(folder)
                self.report(step, "verified", **measured)
            for old in prune(self.run_dir, self.config.checkpoint, step):
                self.report(old, "removed")
        except _FAILURES as error:
            if whole_manifest(folder) is None:
                shutil.rmtree(folder, ignore_errors=True)
            self.report(step, "failed", reason=_reason(error), **measured)

    def _part_path(self, folder: Path) -> Path:
        return folder / f"state-{self.rank:04d}-of-{self.world_size:04d}.safetensors"

    def _others(self) -> range:
        return range(1, self.world_size)

    def _write_share(self, folder: Path, tensors: dict[str, Tensor]) -> File:
        folder.mkdir(parents=True, exist_ok=True)
        if self.rank == 0:
            # Saved before, by an earlier attempt that went on from an older step: from here on it is half rewritten.
            (folder / "manifest.json").unlink(missing_ok=True)
        return write_shard(self._part_path(folder), tensors)

    def _try_note(self, folder: Path, note: dict[str, object]) -> None:
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            replace_text(self._note_path(folder, self.rank), json.dumps(note))

    def _wait_for_note(self, folder: Path, rank: int) -> dict[str, object]:
        path, patience = self._note_path(folder, rank), time.monotonic() + _PATIENCE_SECONDS
        while not path.exists():
            if time.monotonic() > patience:
                raise CheckpointError(f"process {rank} did not write its part within {_PATIENCE_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)
        return json.loads(path.read_text())

    def _note_path(self, folder: Path, rank: int) -> Path:
        return folder / f"note-{self.attempt:04d}-{rank:04d}.json"


def _numbers(metrics: Mapping[str, float]) -> dict[str, float]:
    """What may be compared, and stand in strict JSON."""
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def _step_aside() -> None:
    """Lower this thread's priority; on Linux that is each thread's own."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), os.getpriority(os.PRIO_PROCESS, 0) + _NICENESS)


def _file_of(note: dict[str, object]) -> File:
    if "reason" in note:
        raise CheckpointError(str(note["reason"]))
    return File(**note)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror} ({error.filename})" if error.filename else error.strerror
    return str(error)


def _remove_strangers(folder: Path, manifest: Manifest) -> None:
    """Remove notes, and files of an earlier save of the same step."""
    names = {"manifest.json", *(file.name for file in manifest.files)}
    for path in folder.iterdir():
        if path.name not in names:
            path.unlink(missing_ok=True)
