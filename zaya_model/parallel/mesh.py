"""Ranks, groups and devices, from torchrun's environment or for one process alone."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from zaya_model.errors import ConfigError, Problem


@dataclass(frozen=True)
class World:
    """This process among all that train the same model."""

    rank: int
    size: int
    node: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this process speaks for all."""
        return self.rank == 0

    def sum(self, tensor: Tensor) -> Tensor:
        """Add a tensor over all processes, in place."""
        if self.size > 1:
            dist.all_reduce(tensor)
        return tensor

    def agree(self, flag: bool) -> bool:
        """Whether the flag is set on any process."""
        if self.size == 1:
            return flag
        return bool(self.sum(torch.tensor([float(flag)], device=self.device)).item())

    def wait(self) -> None:
        """Wait for all processes."""
        if self.size > 1:
            dist.barrier()

    def average_gradients(self, parameters: list[Tensor]) -> None:
        """Average gradients over all processes in one message; a parameter without one counts as zero."""
        if self.size == 1:
            return
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        flat = torch.cat([parameter.grad.flatten() for parameter in parameters])
        self.sum(flat).div_(self.size)
        for parameter, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
            parameter.grad.copy_(part.view_as(parameter))


@contextmanager
def join_world(device: str) -> Iterator[World]:
    """Join the processes that torchrun started; gloo on CPU, RCCL (called nccl) on GPU. Raises ConfigError."""
    rank, size = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    has_gpu = torch.cuda.is_available()
    if device == "gpu" and not has_gpu:
        raise ConfigError([Problem("train.device", "no GPU is visible here; choose auto or cpu")])
    on_gpu = has_gpu and device != "cpu"
    place = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0))) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(place)
    if size > 1:
        dist.init_process_group("nccl" if on_gpu else "gloo")
    try:
        yield World(rank, size, int(os.environ.get("GROUP_RANK", 0)), place)
    finally:
        if size > 1:
            dist.destroy_process_group()
