"""The model against transformers' ZayaForCausalLM, on random weights, for every switch that changes numbers."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.zaya_model.model.random_weights import hf_config, hf_model, save_folder
from zaya_model.checkpoint.interop import load_hf
from zaya_model.checkpoint.interop_names import hf_names
from zaya_model.model import Model


@dataclass(frozen=True)
class Case:
    """What differs from the plain small model, and the batch it reads."""

    fields: dict[str, Any] = field(default_factory=dict)
    length: int = 11
    left: tuple[int, ...] = (0, 0, 0)  # padding tokens of each sequence
    right: tuple[int, ...] = (0, 0, 0)

    def batch(self) -> tuple[Tensor, Tensor | None, Tensor]:
        """Ids, mask (None without padding) and shifted targets (B, S)."""
        generator = torch.Generator().manual_seed(7)
        ids = torch.randint(0, 61, (3, self.length), generator=generator)
        position = torch.arange(self.length)
        left, right = torch.tensor(self.left)[:, None], torch.tensor(self.right)[:, None]
        mask = ((position >= left) & (position < self.length - right)).long()
        targets = torch.randint(0, 61, ids.shape, generator=generator).masked_fill(mask == 0, -100)
        targets[0, 0] = -100
        targets[1, -1] = 3
        return ids, None if mask.all() else mask, targets


SLIDING = {
    "num_hidden_layers": 4,
    "layer_types": ["hybrid_sliding", "hybrid", "hybrid_sliding", "hybrid"],
    "sliding_window": 4,
    "rope_parameters": {
        "hybrid": {"rope_type": "default", "rope_theta": 5e6, "partial_rotary_factor": 0.5},
        "hybrid_sliding": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5},
    },
}
PADDED = {"left": (0, 4, 0), "right": (3, 0, 0)}
CASES = {
    "as it is": Case(),
    "kernels of three and two taps": Case({"cca_time0": 3, "cca_time1": 2}),
    "kernels of two and three taps": Case({"cca_time0": 2, "cca_time1": 3}),
    "kernels of one and four taps": Case({"cca_time0": 1, "cca_time1": 4}),
    "kernels of one tap": Case({"cca_time0": 1, "cca_time1": 1}),
    "kernels longer than the text": Case({"cca_time0": 4, "cca_time1": 4}, length=2),
    "attention bias": Case({"attention_bias": True}),
    "head bias": Case({"lm_head_bias": True}),
    "untied head": Case({"tie_word_embeddings": False}),
    "untied head with bias": Case({"tie_word_embeddings": False, "lm_head_bias": True, "rms_norm_eps": 1e-6}),
    "a key head for every query head": Case({"num_attention_heads": 4, "num_key_value_heads": 4}),
    "an odd number of key heads": Case({"num_attention_heads": 3, "num_key_value_heads": 1}),
    "one block": Case({"num_hidden_layers": 1}),
    "one expert": Case({"num_experts": 1}),
    "a large eps": Case({"rms_norm_eps": 1e-2}),
    "a pad token": Case({"pad_token_id": 5}),
    "a quarter rotated": Case(
        {"rope_parameters": {"hybrid": {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.25}}}
    ),
    "all rotated": Case(
        {"rope_parameters": {"hybrid": {"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 1.0}}}
    ),
    "sliding layers": Case(SLIDING),
    "a window of one token": Case(SLIDING | {"sliding_window": 1}),
    "a window longer than the text": Case(SLIDING | {"sliding_window": 100}),
    "padding on both sides": Case(**PADDED),
    "padding and sliding layers": Case(SLIDING, **PADDED),
    "padding, biases and long kernels": Case({"attention_bias": True, "cca_time0": 3, "cca_time1": 3}, **PADDED),
    "one token": Case(length=1),
    "one token with biases and sliding layers": Case(SLIDING | {"attention_bias": True}, length=1),
}


@pytest.fixture(params=CASES.values(), ids=list(CASES))
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[torch.nn.Module, Model, Case]:
    theirs = hf_model(hf_config(**request.param.fields))
    save_folder(theirs, tmp_path)
    return theirs, load_hf(tmp_path, skip="zero").train(), request.param


def test_logits_loss_and_every_gradient_agree(pair: tuple[torch.nn.Module, Model, Case]) -> None:
    theirs, ours, case = pair
    ids, mask, targets = case.batch()
    expected = theirs(input_ids=ids, attention_mask=mask, use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(expected.flatten(0, 1), targets.flatten())
    loss.backward()
    torch.testing.assert_close(ours(ids, mask), expected.detach(), atol=2e-5, rtol=0)
    our_loss = ours.loss(ids, targets, mask)
    our_loss.backward()
    torch.testing.assert_close(our_loss.detach(), loss.detach(), atol=2e-5, rtol=0)
    named = dict(ours.named_parameters())
    places = hf_names(named)
    for name, parameter in theirs.named_parameters():
        gradient, wanted = named[places[name].name].grad, parameter.grad
        scale = wanted.abs().max().clamp_min(1e-3)
        assert (gradient - wanted).abs().max() <= 1e-4 * scale, name


def test_the_router_chooses_the_same_and_often_skips(pair: tuple[torch.nn.Module, Model, Case]) -> None:
    theirs, ours, case = pair
    ids, mask, _ = case.batch()
    choices: list[Tensor] = []
    for block in ours.blocks:
        block.router.register_forward_hook(lambda _module, _inputs, outputs: choices.append(outputs[0]))
    ours(ids, mask)
    seen = theirs(input_ids=ids, attention_mask=mask, use_cache=False, output_router_logits=True).router_logits
    for layer, (choice, logits) in enumerate(zip(choices, seen, strict=True)):
        biases = theirs.model.layers[layer].mlp.gate.balancing_biases
        assert torch.equal(choice, (logits.softmax(-1) + biases).argmax(-1))
    if ids.numel() > 10:
        share = (torch.cat(choices) == ours.config.num_experts).float().mean()
        assert 0.05 < share < 0.95
