"""One optimiser step: forward, backward, average, clip, update, balance; and what it measured."""

import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from zaya_model.optim.groups import parts_of
from zaya_model.optim.schedule import learning_rate_share
from zaya_model.parallel.mesh import World
from zaya_model.train.state import TrainState


@dataclass
class StepResult:
    """What one step measured; tensors stay on the device until somebody asks."""

    loss: Tensor
    counts: Tensor  # (L, E + 1) tokens of each class over the global batch
    gradient_norms: dict[str, Tensor]
    learning_rates: dict[str, float]
    seconds: dict[str, float] = field(default_factory=dict)


def train_step(state: TrainState, micro_batches: Iterable[tuple[Tensor, Tensor]], world: World) -> StepResult:
    """Take one step over this rank's micro-batches, all ranks together."""
    clock = Stopwatch(world.device)
    state.model.train()
    loss = forward_backward(state, list(micro_batches), world)
    counts = state.model.router_counts()
    sums = world.sum(torch.cat((loss[None].double(), counts.flatten().double())))
    state.model.reset_router_counts()
    world.average_gradients(list(state.model.parameters()))
    clock.lap("forward_backward")
    norms = clip_gradients(state, state.config.optimizer.gradient_clip)
    rates = set_learning_rates(state)
    state.muon.step()
    state.adamw.step()
    state.balancer.step(counts := sums[1:].view_as(counts).long())
    state.muon.zero_grad()
    state.adamw.zero_grad()
    state.step += 1
    state.tokens += state.config.tokens_per_step
    clock.lap("optimizer")
    return StepResult(sums[0] / world.size, counts, norms, rates, clock.laps)


def forward_backward(state: TrainState, micro_batches: list[tuple[Tensor, Tensor]], world: World) -> Tensor:
    """Accumulate the gradient of the mean loss; returns that loss."""
    total = torch.zeros((), device=world.device)
    for inputs, targets in micro_batches:
        with autocast(state.config.train.precision, world.device):
            loss = state.model.loss(inputs.to(world.device), targets.to(world.device)) / len(micro_batches)
        loss.backward()
        total += loss.detach()
    return total


def autocast(precision: str, device: torch.device) -> AbstractContextManager[None]:
    """Matrix products in bf16 where the config asks for it; norms, softmax, loss and residual sums stay in fp32."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bf16")


@torch.no_grad()
def clip_gradients(state: TrainState, limit: float) -> dict[str, Tensor]:
    """Scale the whole gradient down to `limit`; returns the norms before that, of all and of each part."""
    norms = {}
    for part, parameters in parts_of(state.model).items():
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        norms[part] = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    whole = torch.linalg.vector_norm(torch.stack(list(norms.values())))
    if limit:
        scale = (limit / whole.clamp_min(1e-12)).clamp_max(1.0)
        torch._foreach_mul_([p.grad for p in state.model.parameters() if p.grad is not None], scale)
    return {"": whole, **norms}


def set_learning_rates(state: TrainState) -> dict[str, float]:
    """Set both optimisers to the schedule's rate for this step."""
    config = state.config.optimizer
    share = learning_rate_share(state.step, state.config.train.steps, config)
    rates = {"muon": config.muon_learning_rate * share, "adamw": config.adamw_learning_rate * share}
    for name, optimizer in (("muon", state.muon), ("adamw", state.adamw)):
        for group in optimizer.param_groups:
            group["lr"] = rates[name]
    return rates


class Stopwatch:
    """Seconds between laps; waits for the device, so that each part pays for its own work."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.laps = device, {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        now = time.perf_counter()
        self.laps[name] = now - self._last
        self._last = now
