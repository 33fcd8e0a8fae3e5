"""Saving and loading 1 GiB on two processes: the stall, the cost beside the training, and the disk's own rate."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

from bench._rows import row
from bench._torchrun import torchrun
from zaya_model.checkpoint.manifest import list_checkpoints
from zaya_model.checkpoint.restore import find_checkpoint, read_tensors
from zaya_model.checkpoint.save import Saver
from zaya_model.model import Model
from zaya_model.presets import load_preset

_RANKS, _ROUNDS, _STEPS = 2, 3, 24
_STATE_BYTES, _TENSOR_BYTES = 1 << 30, 16 << 20


def measure() -> list[dict]:
    """Medians over rounds that each go through all that is compared."""
    found = torchrun("bench.checkpoint", _RANKS)
    size = f"1 GiB on {_RANKS} processes"
    return [
        row(f"training stands still for a save, {size}", found["stall"], "s", "torch.save", found["blocking"]),
        row("a step while the checkpoint is written", found["busy"], "s", "a step without", found["quiet"]),
        row(f"checkpoint to disk with checksums, {size}", found["write"], "B/s", "dd with fsync", found["dd"]),
        row(f"checkpoint read from disk and verified, {size}", found["load"], "B/s", "the disk", found["disk"]),
        row(f"checkpoint read from memory, {size}", found["read"], "B/s", "the page cache", found["cache"]),
    ]  # fmt: skip


def rank_main(folder: Path) -> None:
    """What each of the processes does; the first one leaves the medians in found.json."""
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    shape = (_TENSOR_BYTES // 4096, 1024)
    state = {f"model/{index:03d}": torch.randn(shape) for index in range(_STATE_BYTES // _TENSOR_BYTES)}
    config = load_preset("tiny-cpu", {"checkpoint.verify": False})
    saver = Saver(folder / "run", config, lambda *_, **__: None, rank=rank, world_size=_RANKS)
    step = _training_step()
    saver.save(1, state)  # the first one makes its buffers
    saver.wait()
    rounds = [_round(number, folder, saver, state, step) for number in range(2, 2 + _ROUNDS)]
    if rank == 0:
        medians = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
        (folder / "found.json").write_text(json.dumps(medians))
    dist.destroy_process_group()


def _round(
    number: int, folder: Path, saver: Saver, state: dict[str, Tensor], step: Callable[[], None]
) -> dict[str, float]:
    first = saver.rank == 0
    found = {"quiet": statistics.median(_seconds(step) for _ in range(_STEPS))}
    dist.barrier()
    found["stall"] = _slowest(saver.save(2 * number, state))
    busy = []
    while saver.is_writing:
        busy.append(_seconds(step))
    found["busy"] = statistics.mean(busy) if busy else found["quiet"]
    dist.barrier()
    found["write"] = _STATE_BYTES / _slowest(_seconds(lambda: (saver.save(2 * number + 1, state), saver.wait())))
    dist.barrier()
    found["blocking"] = _seconds(lambda: _gather_and_save(folder / "gathered.pt", state, saver.rank))
    dist.barrier()
    if first:
        dd = ["dd", "if=/dev/zero", f"of={folder / 'zeros'}", "bs=8M", f"count={_STATE_BYTES >> 23}", "conv=fsync"]
        found["dd"] = _STATE_BYTES / _seconds(lambda: subprocess.run(dd, check=True, stderr=subprocess.DEVNULL))
        found |= _load(folder / "run")
    dist.barrier()
    return found


def _load(run_dir: Path) -> dict[str, float]:
    files = sorted(list_checkpoints(run_dir)[0][1].glob("*.safetensors"))
    rates = {
        "disk": lambda: _read_through(files, from_disk=True),
        "cache": lambda: _read_through(files, from_disk=False),
        "load": lambda: _read(run_dir, is_verified=False),
        "read": lambda: _read(run_dir, is_verified=True),
    }
    return {name: _STATE_BYTES / _seconds(read) for name, read in rates.items()}


def _read_through(files: list[Path], *, from_disk: bool) -> None:
    block = bytearray(1 << 20)
    for path in files:
        with path.open("rb", buffering=0) as file:
            if from_disk:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while file.readinto(block):
                pass


def _read(run_dir: Path, *, is_verified: bool) -> None:
    found = find_checkpoint(run_dir, list_checkpoints(run_dir)[0][0], is_verified=is_verified)
    for tensor in read_tensors(found.folder, found.manifest).values():
        tensor.sum()  # safetensors maps the file; only a touch reads it


def _gather_and_save(path: Path, state: dict[str, Tensor], rank: int) -> None:
    """Every other tensor comes from the other process; training goes on when all is written."""
    for index, tensor in enumerate(state.values()):
        if index % _RANKS == 1:
            dist.send(tensor, 0) if rank == 1 else dist.recv(tensor, 1)
    if rank == 0:
        torch.save(state, path)
    dist.barrier()


def _training_step() -> Callable[[], None]:
    config = load_preset("tiny-cpu")
    model = Model(config.model)
    ids = torch.randint(0, config.model.vocab_size, (4, config.data.sequence_length))

    def step() -> None:
        model.zero_grad(set_to_none=True)
        model.loss(ids, ids).backward()

    step()
    return step


def _seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def _slowest(seconds: float) -> float:
    found = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return found.item()


if __name__ == "__main__":
    rank_main(Path(sys.argv[1]))
