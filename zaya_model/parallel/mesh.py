"""Ranks, groups and devices, from torchrun's environment or for one process alone."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

from zaya_model.errors import ConfigError, Problem

# A message of 128 MB reaches about 90 % of the fabric's rate on eight MI300X.
_BUCKET_VALUES = 32 << 20


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

    def average_gradients(self, parameters: list[Tensor]) -> None:
        """Average gradients over all processes, many in a message; a parameter without one counts as zero."""
        if self.size == 1:
            return
        bucket: list[Tensor] = []
        size = 0
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            bucket.append(parameter.grad)
            size += parameter.grad.numel()
            if size >= _BUCKET_VALUES:
                self._average(bucket)
                bucket, size = [], 0
        self._average(bucket)

    def _average(self, tensors: list[Tensor]) -> None:
        if not tensors:
            return
        flat = self.sum(torch.cat([tensor.flatten() for tensor in tensors])).div_(self.size)
        parts = [part.view_as(t) for t, part in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True)]
        torch._foreach_copy_(tensors, parts)


def is_first_process() -> bool:
    """Whether this process will speak for all, known before it has joined them."""
    return int(os.environ.get("RANK", 0)) == 0


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
        dist.init_process_group("nccl" if on_gpu else "gloo", device_id=place if on_gpu else None)
    try:
        yield World(rank, size, int(os.environ.get("GROUP_RANK", 0)), place)
    finally:
        if size > 1:
            dist.destroy_process_group()
