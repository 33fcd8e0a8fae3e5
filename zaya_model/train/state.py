"""All that a resumed run needs, in one object: weights, optimisers, balancing bias, counters, random numbers."""

from collections import deque
from collections.abc import Mapping

import torch
from torch import Tensor

from zaya_model.config import Phase, RunConfig
from zaya_model.errors import CheckpointError
from zaya_model.model import Model
from zaya_model.optim.balance import Balancer
from zaya_model.optim.groups import build_optimizers, parts_of, spread
from zaya_model.parallel.mesh import World
from zaya_model.parallel.recompute import recompute_blocks


class TrainState:
    """The model and everything that moves it. The data's position is the step itself."""

    def __init__(self, config: RunConfig, world: World) -> None:
        self.config = config
        torch.manual_seed(config.train.seed)
        self.model = Model(config.model, seed=config.train.seed).to(world.device)
        for block in self.model.blocks:
            block.attention.sequence = world.context
        if config.train.activation_checkpointing:
            recompute_blocks(self.model)
        self.shards = spread(self.model, config.parallel.sharding, world, precision=config.train.precision)
        self.muon, self.adamw = build_optimizers(self.shards.mine, config.optimizer)
        self.parts = parts_of(self.shards.mine)
        self.balancer = Balancer(self.model.balancing_biases, config.balance)
        self.step = 0
        self.tokens = 0
        self.recent_losses: deque[float] = deque(maxlen=config.watch.spike_window)

    @property
    def phase(self) -> Phase:
        """The phase of the next step."""
        return self.config.phase_at(self.step)

    def enter_phase(self) -> None:
        """Give the model the rotary base of the next step's phase."""
        kinds = self.config.model.layer_types or ("full",) * len(self.model.blocks)
        for block, kind in zip(self.model.blocks, kinds, strict=True):
            if kind == "full":
                block.attention.rotary.theta = self.phase.rope_theta

    def tensors(self) -> dict[str, Tensor]:
        """All of the state that is on this rank, named."""
        return {**self.shared_tensors(), **self.own_tensors()}

    def shared_tensors(self) -> dict[str, Tensor]:
        """What every rank has alike."""
        self.shards.settle()
        own = {piece.parameter_name for piece in self.shards.weights}
        found = {f"model/{name}": value for name, value in self.model.state_dict().items() if name not in own}
        found |= {f"balance/{name}": tensor for name, tensor in self.balancer.state_dict().items()}
        found["counters"] = torch.tensor([self.step, self.tokens], dtype=torch.int64)
        found["recent_losses"] = torch.tensor(self.recent_losses, dtype=torch.float64)
        found["random/cpu"] = torch.get_rng_state()
        return found if self.shards.is_sharded else {**found, **self._optimizer_tensors()}

    def own_tensors(self) -> dict[str, Tensor]:
        """What no other rank has."""
        weights = {f"model/{piece.name}": piece.values() for piece in self.shards.weights}
        return {**weights, **self._optimizer_tensors()} if self.shards.is_sharded else {}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Take over what any number of ranks saved. Raises CheckpointError when it belongs to another config."""
        try:
            self.model.load_state_dict(self.shards.placed(below(tensors, "model/")))
        except RuntimeError as error:
            detail = str(error).splitlines()[-1].strip()
            raise CheckpointError(f"The checkpoint does not fit this config: {detail}") from error
        self.balancer.load_state_dict(below(tensors, "balance/"))
        saved = below(tensors, "optimizer/")
        self.muon.load(saved)
        self.adamw.load(saved)
        self.step, self.tokens = (int(value) for value in tensors["counters"])
        self.recent_losses = deque(tensors["recent_losses"].tolist(), self.config.watch.spike_window)
        torch.set_rng_state(tensors["random/cpu"])

    def _optimizer_tensors(self) -> dict[str, Tensor]:
        named = {**self.muon.tensors(), **self.adamw.tensors()}
        return {f"optimizer/{name}": value for name, value in named.items()}


def below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The part of a saved state whose names begin with `prefix`, under what follows it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
