"""Ranks, groups and devices, from torchrun's environment or for one process alone."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from zaya_model.errors import ConfigError, Problem
from zaya_model.parallel.context import Context


@dataclass(frozen=True)
class World:
    """This process among all that train the same model."""

    rank: int
    size: int
    node: int
    device: torch.device
    context: Context | None = None  # the other ranks that have parts of the same sequences

    @property
    def data_rank(self) -> int:
        """Which of the shares of a batch is this rank's."""
        return self.rank // self.context.size if self.context else self.rank

    @property
    def data_size(self) -> int:
        """Shares of a batch."""
        return self.size // self.context.size if self.context else self.size

    def part_of(self, tokens_BT: Tensor) -> Tensor:
        """This rank's run of the tokens of whole sequences (B, T), on its device."""
        own = self.context.split(tokens_BT) if self.context else tokens_BT
        return own.to(self.device)

    @property
    def is_first(self) -> bool:
        """Whether this process speaks for all."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """Add a tensor over all processes, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def tell(self, number: int) -> int:
        """The first process's number, on every process."""
        if self.size == 1:
            return number
        told = torch.tensor([number], dtype=torch.int64, device=self.device)
        dist.broadcast(told, 0)
        return int(told.item())

    def wait(self) -> None:
        """Wait for all processes."""
        if self.size > 1:
            dist.barrier()


def alone(device: str = "cpu") -> World:
    """A world of this process only."""
    return World(0, 1, 0, torch.device(device))


def is_first_process() -> bool:
    """Whether this process will speak for all, known before it has joined them."""
    return int(os.environ.get("RANK", 0)) == 0


@contextmanager
def join_world(device: str, context: int = 1) -> Iterator[World]:
    """Join the processes that torchrun started; gloo on CPU, RCCL (called nccl) on GPU. Raises ConfigError.

    Of `context` ranks in a row each has a part of the same sequences.
    """
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    has_gpu = torch.cuda.is_available()
    if device == "gpu" and not has_gpu:
        raise ConfigError([Problem("train.device", "no GPU is visible here; choose auto or cpu")])
    on_gpu = has_gpu and device != "cpu"
    place = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(place)
    if size > 1:
        dist.init_process_group("nccl" if on_gpu else "gloo", device_id=place if on_gpu else None)
    try:
        yield World(rank, size, int(os.environ.get("GROUP_RANK", 0)), place, _join_context(rank, size, context))
    finally:
        if size > 1:
            dist.destroy_process_group()


def _join_context(rank: int, size: int, context: int) -> Context | None:
    if size == 1 or context == 1:
        return None
    # Every rank takes part in making every group.
    groups = [dist.new_group(list(range(first, first + context))) for first in range(0, size, context)]
    return Context(rank % context, context, groups[rank // context])
