"""Where a Hugging Face folder keeps each tensor of the model: the names of today and those of the first release."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_TOP = {
    "embed_tokens.weight": "model.embed_tokens.weight",
    "input_scale": "model.input_hidden_states_scale",
    "input_bias": "model.input_hidden_states_bias",
    "norm.weight": "model.norm.weight",
    "untied_head": "lm_head.weight",
    "head_bias": "lm_head.bias",
}
_BLOCK = {
    "attention_norm": "input_layernorm",
    "attention.q_proj": "self_attn.qkv_proj.q_proj",
    "attention.k_proj": "self_attn.qkv_proj.k_proj",
    "attention.v_proj_current": "self_attn.qkv_proj.v_proj_current",
    "attention.v_proj_delayed": "self_attn.qkv_proj.v_proj_delayed",
    "attention.conv_depthwise": "self_attn.qkv_proj.conv_qk_depthwise",
    "attention.conv_grouped": "self_attn.qkv_proj.conv_qk_grouped",
    "attention.temperature": "self_attn.qk_norm.temp",
    "attention.o_proj": "self_attn.o_proj",
    "attention_residual": "post_attention_residual_scale",
    "experts_norm": "post_attention_layernorm",
    "router.down_proj": "mlp.gate.down_proj",
    "router.depth_scale": "mlp.gate.router_states_scale",
    "router.norm": "mlp.gate.router_mlp.norm",
    "router.fc1": "mlp.gate.router_mlp.fc1",
    "router.fc2": "mlp.gate.router_mlp.fc2",
    "router.out_proj": "mlp.gate.router_mlp.out_proj",
    "router.balancing_bias": "mlp.gate.balancing_biases",
    "experts.gate_up_proj": "mlp.experts.gate_up_proj",
    "experts.down_proj": "mlp.experts.down_proj",
    "experts_residual": "post_mlp_residual_scale",
}
# Attention is layer 2i of the first release, the experts layer 2i + 1.
_OLD_ATTENTION = {
    "attention_norm": "input_norm",
    "attention.q_proj": "self_attn.qkv.linear_q",
    "attention.k_proj": "self_attn.qkv.linear_k",
    "attention.v_proj_current": "self_attn.qkv.val_proj1",
    "attention.v_proj_delayed": "self_attn.qkv.val_proj2",
    "attention.conv_depthwise": "self_attn.qkv.conv_qk.0",
    "attention.conv_grouped": "self_attn.qkv.conv_qk.1",
    "attention.temperature": "self_attn.qkv.temp",
    "attention.o_proj": "self_attn.o_proj",
}
_OLD_EXPERTS = {
    "attention_residual": "res_scale",
    "experts_norm": "input_norm",
    "router.down_proj": "zaya_block.router.down_proj",
    "router.depth_scale": "zaya_block.router.router_states_scale",
    "router.norm": "zaya_block.router.rmsnorm_eda",
    "router.fc1": "zaya_block.router.router_mlp.0",
    "router.fc2": "zaya_block.router.router_mlp.2",
    "router.out_proj": "zaya_block.router.router_mlp.4",
    "router.balancing_bias": "zaya_block.router.balancing_biases",
}
_OLD_TOP = _TOP | {
    "input_scale": "model.layers.0.res_scale.hidden_states_scale",
    "input_bias": "model.layers.0.res_scale.hidden_states_bias",
    "norm.weight": "model.final_norm.weight",
}
_OLD_STACKS = {"experts.gate_up_proj": "linear_fc1", "experts.down_proj": "linear_fc2"}
_OLD_LAYER = re.compile(r"model\.layers\.(\d+)\.(?:input_norm|res_scale|self_attn\.qkv\.|zaya_block)")


@dataclass(frozen=True)
class Place:
    """A tensor of the model's state, or one matrix of its stack."""

    name: str
    expert: int | None = None


def hf_name(name: str) -> str:
    """Today's name of a tensor of ours."""
    if name in _TOP:
        return _TOP[name]
    _, block, rest = name.split(".", 2)
    return f"model.layers.{block}.{_renamed(rest, _BLOCK)}"


def hf_names(names: Iterable[str]) -> dict[str, Place]:
    """Today's names of all tensors of ours."""
    return {hf_name(name): Place(name) for name in names}


def old_names(names: Iterable[str], *, num_blocks: int, num_experts: int) -> dict[str, Place]:
    """The first release's names of all tensors of ours; it kept experts apart and closed each block in the next one."""
    found = {}
    for name in names:
        if name in _OLD_TOP:
            found[_OLD_TOP[name]] = Place(name)
            continue
        block, rest = int(name.split(".")[1]), name.split(".", 2)[2]
        if rest in _OLD_STACKS:
            for expert in range(num_experts):
                matrix = f"local_experts.{expert}.{_OLD_STACKS[rest]}.weight"
                found[f"model.layers.{2 * block + 1}.zaya_block.experts.{matrix}"] = Place(name, expert)
        elif rest.startswith("experts_residual."):
            owner = "model" if block == num_blocks - 1 else f"model.layers.{2 * block + 2}"
            found[f"{owner}.res_scale.{rest.removeprefix('experts_residual.')}"] = Place(name)
        else:
            is_attention = rest.startswith(("attention.", "attention_norm."))
            layer, table = (2 * block, _OLD_ATTENTION) if is_attention else (2 * block + 1, _OLD_EXPERTS)
            found[f"model.layers.{layer}.{_renamed(rest, table)}"] = Place(name)
    return found


def num_old_layers(names: Iterable[str]) -> int:
    """How many alternating layers the names of a file speak of; 0 for today's names."""
    layers = [int(match[1]) for name in names if (match := _OLD_LAYER.match(name))]
    return max(layers, default=-1) + 1


def _renamed(rest: str, table: dict[str, str]) -> str:
    part = next(part for part in table if rest == part or rest.startswith(f"{part}."))
    return table[part] + rest[len(part) :]
