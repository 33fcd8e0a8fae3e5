"""Planned bytes, held against the tensors of a real state."""

import torch

from zaya_model.parallel.mesh import alone
from zaya_model.plan import estimate_memory
from zaya_model.presets import load_preset
from zaya_model.train.state import TrainState


def test_weights_gradients_and_momenta_are_those_of_the_state() -> None:
    config = load_preset("tiny-cpu")
    state, planned = TrainState(config, alone()), estimate_memory(config)
    gradients = {piece: torch.zeros_like(piece.values()) for piece in state.shards.mine}
    state.muon.step(gradients)
    state.adamw.step(gradients)
    kept = sum(t.nbytes for name, t in state.tensors().items() if name.startswith("optimizer/") and t.ndim)
    assert planned.optimizer == kept
    assert planned.weights == sum(p.nbytes for p in state.model.parameters())


def test_sharded_momenta_are_a_part_for_each_process() -> None:
    whole, shared = (
        estimate_memory(load_preset("zaya1-base", {"parallel.sharding": sharding})) for sharding in ("none", "zero1")
    )
    assert shared.optimizer == whole.optimizer // 1024
    assert shared.weights == whole.weights


def test_sharded_experts_are_a_part_for_each_process_and_two_blocks_in_flight() -> None:
    whole, shared = (
        estimate_memory(load_preset("zaya1-2b", {"parallel.sharding": sharding, "parallel.nodes": 1}))
        for sharding in ("zero1", "fsdp")
    )
    assert whole.weights * 0.1 < shared.weights < whole.weights * 0.5
    assert shared.optimizer == whole.optimizer
