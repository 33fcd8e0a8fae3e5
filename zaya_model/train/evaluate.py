"""Held-out loss, and bits per byte of the text."""

import math
from dataclasses import dataclass

import torch

from zaya_model.data.loader import Split
from zaya_model.model import Model
from zaya_model.parallel.mesh import World
from zaya_model.train.step import autocast


@dataclass(frozen=True)
class HeldOut:
    """The held-out part of one source and its share in the mix."""

    name: str
    split: Split
    share: float
    bytes_per_token: float


def evaluate(
    model: Model, parts: list[HeldOut], world: World, *, batches: int, batch_size: int, precision: str
) -> dict[str, float]:
    """Loss and bits per byte over all parts by their shares; with several, each one's loss too."""
    scalars, loss, bits, shares = {}, 0.0, 0.0, sum(part.share for part in parts)
    for part in parts:
        own = mean_loss(model, part.split, world, batches=batches, batch_size=batch_size, precision=precision)
        loss += own * part.share / shares
        bits += own / math.log(2) / part.bytes_per_token * part.share / shares
        if len(parts) > 1:
            scalars[f"eval/loss/{part.name}"] = own
    return {"eval/loss": loss, "eval/bits_per_byte": bits, **scalars}


@torch.no_grad()
def mean_loss(model: Model, split: Split, world: World, *, batches: int, batch_size: int, precision: str) -> float:
    """Mean loss over the first `batches` batches, the same ones each time, shared out over the ranks."""
    size = min(batches * batch_size, split.num_windows)
    shares = torch.arange(size).tensor_split(world.data_size)
    passes = -(-len(shares[0]) // batch_size)
    was_training = model.training
    model.eval()
    total = torch.zeros(2, dtype=torch.float64, device=world.device)
    for part in shares[world.data_rank].tensor_split(passes):
        # Sharded weights are gathered from all ranks, so one without a window must take part: in the first, uncounted.
        windows = part if len(part) else shares[0][:1]
        inputs, targets = (world.part_of(tokens) for tokens in split.read(windows.numpy()))
        with autocast(precision, world.device):
            loss = model.loss(inputs, targets)
        counted = inputs.numel() if len(part) else 0
        total += torch.stack((loss.double() * counted, total.new_tensor(counted)))
    model.train(was_training)
    loss_sum, count = world.sum(total).tolist()
    return loss_sum / count
