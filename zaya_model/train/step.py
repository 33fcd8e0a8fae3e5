"""One optimiser step: forward, backward, sum, clip, update, balance; and what it measured."""

import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from zaya_model.optim.optimizer import Gradients
from zaya_model.optim.schedule import learning_rate_share
from zaya_model.parallel.mesh import World
from zaya_model.train.asked import Asked
from zaya_model.train.state import TrainState
from zaya_model.train.watch import Alarm, judge


@dataclass
class StepResult:
    """What one step measured, on the host."""

    loss: float
    counts: Tensor  # (L, E + 1) tokens of each class over the global batch, on the CPU
    gradient_norms: dict[str, float]  # "" is the whole
    learning_rates: dict[str, float]
    asked: Asked  # of any process
    alarm: Alarm | None = None
    seconds: dict[str, float] = field(default_factory=dict)


def train_step(
    state: TrainState, micro_batches: Iterable[tuple[Tensor, Tensor]], world: World, *, asked: Asked = Asked.NOTHING
) -> StepResult:
    """Take one step over this rank's micro-batches, all ranks together.

    What a rank was asked to do travels with the loss and the loads, so that agreeing on it costs no message of its own.
    A step that gives an alarm may leave the weights alone; its batch counts as used.
    """
    clock = Stopwatch(world.device)
    state.shards.settle()
    state.model.train()
    loss = forward_backward(state, micro_batches, world)
    counts = state.model.router_counts()
    asks = counts.new_tensor([asked == kind for kind in Asked]).double()
    sums = torch.cat((loss.double()[None], asks, counts.flatten().double()))
    world.sum(sums)
    state.model.reset_router_counts()
    gradients = state.shards.collect()
    clock.lap("forward_backward")
    norms = clip_gradients(state, gradients, state.config.optimizer.gradient_clip)
    loads = sums[1 + len(asks) :].view_as(counts)
    rates, share = set_learning_rates(state)
    # Sums over all ranks are the same on each, so each judges alike.
    loss_now, norm_now = torch.stack((sums[0], norms[""].double())).tolist()
    alarm = judge(state.config.watch, loss_now, norm_now, state.recent_losses)
    if alarm is None or not alarm.spares_weights:
        state.muon.step(gradients)
        state.adamw.step(gradients)
        state.shards.publish()
        state.balancer.step(loads, share)
        state.recent_losses.append(loss_now)
    state.model.zero_grad(set_to_none=True)
    state.tokens += state.phase.tokens_per_step
    state.step += 1
    host = torch.cat((sums[1:], torch.stack(list(norms.values())).double())).cpu()
    clock.lap("optimizer")
    asks, loads, values = host.split((len(asks), loads.numel(), len(norms)))
    return StepResult(
        loss=loss_now,
        counts=loads.view_as(counts).long(),
        gradient_norms=dict(zip(norms, values.tolist(), strict=True)),
        learning_rates=rates,
        asked=max(kind for kind, count in zip(Asked, asks.tolist(), strict=True) if count),
        alarm=alarm,
        seconds=clock.laps,
    )


def forward_backward(state: TrainState, micro_batches: Iterable[tuple[Tensor, Tensor]], world: World) -> Tensor:
    """Accumulate this rank's part of the mean loss over the global batch, and its gradient; returns that part."""
    total = torch.zeros((), device=world.device)
    for sequences in micro_batches:
        inputs, targets = (world.part_of(tokens) for tokens in sequences)
        # By its share of all tokens, so that ranks and micro-batches may be of unequal size.
        share = inputs.numel() / state.phase.tokens_per_step
        with autocast(state.config.train.precision, world.device):
            loss = state.model.loss(inputs, targets) * share
        loss.backward()
        total += loss.detach()
    return total


def autocast(precision: str, device: torch.device) -> AbstractContextManager[None]:
    """Matrix products in bf16 where the config asks for it; norms, softmax, loss and residual sums stay in fp32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


@torch.no_grad()
def clip_gradients(state: TrainState, gradients: Gradients, limit: float) -> dict[str, Tensor]:
    """Scale the whole gradient down to `limit`; returns the norms before that, of all and of each part."""
    names, parts = list(state.parts), [[gradients[piece] for piece in part] for part in state.parts.values()]
    own = [gradient for part in parts for gradient in part]
    squares = torch.stack(torch._foreach_norm(own)).square().split([len(part) for part in parts])
    of_parts = state.shards.sum_over_pieces(torch.stack([square.sum() for square in squares]))
    whole = of_parts.sum().sqrt()
    if limit:
        torch._foreach_mul_(own, (limit / whole.clamp_min(1e-12)).clamp_max(1.0))
    return {"": whole, **dict(zip(names, of_parts.sqrt(), strict=True))}


def set_learning_rates(state: TrainState) -> tuple[dict[str, float], float]:
    """Set both optimisers to the schedule's rate for this step; returns the rates and their share of the peak."""
    phase = state.phase
    share = learning_rate_share(state.step, phase)
    state.muon.rate = phase.muon_learning_rate * share
    state.adamw.rate = phase.adamw_learning_rate * share
    return {"muon": state.muon.rate, "adamw": state.adamw.rate}, share


class Stopwatch:
    """Seconds between laps; waits for the device, so that each part pays for its own work."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.laps = device, {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        """End the part that is called `name`."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        now = time.perf_counter()
        self.laps[name] = now - self._last
        self._last = now
