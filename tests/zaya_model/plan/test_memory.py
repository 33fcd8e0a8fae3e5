"""Planned bytes, held against the tensors of a real state."""

import torch

from zaya_model.plan import estimate_memory
from zaya_model.presets import load_preset
from zaya_model.train.state import TrainState


def test_weights_gradients_and_momenta_are_those_of_the_state() -> None:
    config = load_preset("tiny-cpu")
    state, planned = TrainState(config, torch.device("cpu")), estimate_memory(config)
    for parameter in state.model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    state.muon.step()
    state.adamw.step()
    kept = sum(t.nbytes for name, t in state.tensors().items() if name.startswith("optimizer/") and t.ndim)
    assert planned.optimizer == kept
    assert planned.weights == sum(p.nbytes for p in state.model.parameters())
