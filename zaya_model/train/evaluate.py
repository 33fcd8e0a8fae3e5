"""Held-out loss, and bits per byte of the text."""

import math

import torch

from zaya_model.data.loader import Split
from zaya_model.parallel.mesh import World
from zaya_model.train.state import TrainState
from zaya_model.train.step import autocast


@torch.no_grad()
def evaluate(state: TrainState, split: Split, world: World, *, bytes_per_token: float) -> dict[str, float]:
    """Mean loss over the first `eval_batches` batches, the same ones each time, shared out over the ranks."""
    config = state.config.train
    size = min(config.eval_batches * config.micro_batch_size, split.num_windows)
    windows = torch.arange(size).tensor_split(world.size)[world.rank].split(config.micro_batch_size)
    state.model.eval()
    total = torch.zeros(2, dtype=torch.float64, device=world.device)
    for part in windows:
        if not len(part):
            continue
        inputs, targets = split.read(part.numpy())
        with autocast(config.precision, world.device):
            loss = state.model.loss(inputs.to(world.device), targets.to(world.device))
        total += torch.tensor([loss.item() * len(part), len(part)], dtype=torch.float64, device=world.device)
    state.model.train()
    loss_sum, count = world.sum(total).tolist()
    loss = loss_sum / count
    return {"eval/loss": loss, "eval/bits_per_byte": loss / math.log(2) / bytes_per_token}
