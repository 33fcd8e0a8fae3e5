"""Hugging Face folders of ZAYA weights, both ways: the names of transformers 5 and those of Zyphra's first release.

A folder holds `config.json` and `*.safetensors`, in one file or in shards with an index. transformers 5.24 sets
the skip entry of every balancing bias to -1 after loading (its initialisation writes it without a guard), so a model
whose training moved that entry must get its biases once more with `load_state_dict` there; ours reads them as they are.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from zaya_model.config import ModelConfig
from zaya_model.errors import CheckpointError, ConfigError, Problem
from zaya_model.model import Model

_SAME_NAME = (
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim",
    "cca_time0", "cca_time1", "num_experts", "moe_intermediate_size", "router_hidden_size", "max_position_embeddings",
    "rms_norm_eps", "tie_word_embeddings", "attention_bias", "lm_head_bias", "initializer_range", "sliding_window",
    "pad_token_id",
)  # fmt: skip
_LAYER_TYPES = {"hybrid": "full", "hybrid_sliding": "sliding"}
# Fields that change no number of a forward pass, or that only describe the file.
_IGNORED = frozenset(
    [
        "model_type",
        "architectures",
        "transformers_version",
        "torch_dtype",
        "dtype",
        "use_cache",
        "bos_token_id",
        "eos_token_id",
        "output_router_logits",
        "output_hidden_states",
        "output_attentions",
        "return_dict",
        "_name_or_path",
        "auto_map",
        "chunk_size_feed_forward",
        "id2label",
        "label2id",
        "is_encoder_decoder",
        "problem_type",
        "rope_scaling",
        "bias_on_expert",
        "_attn_implementation",
        "_experts_implementation",
        "residual_in_fp32",
        "zaya_high_prec",
        "activation_func_fp8_input_store",
        "fused_add_norm",
        "num_query_groups",
        "kv_channels",
        "cca_num_k_heads",
    ]
)
# Switches that released models all set alike; another value would be another architecture.
_REQUIRED: dict[str, tuple[Any, ...]] = {
    "hidden_act": ("silu",), "attention_dropout": (0, 0.0), "num_experts_per_tok": (1,), "moe_router_topk": (1,),
    "cca": (True,), "zaya_use_mod": (True,), "zaya_use_eda": (True,), "scale_residual_merge": (True,),
    "gated_linear_unit": (True,), "activation_func": ("swiglu",), "add_bias_linear": (False,), "clamp_temp": (False,),
    "normalization": ("RMSNorm",),
}  # fmt: skip

_HF_NAMES = {
    "embed_tokens.weight": "model.embed_tokens.weight",
    "input_scale": "model.input_hidden_states_scale",
    "input_bias": "model.input_hidden_states_bias",
    "norm.weight": "model.norm.weight",
    "untied_head": "lm_head.weight",
    "head_bias": "lm_head.bias",
}
_HF_BLOCK_NAMES = {
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
_OLD_ATTENTION_NAMES = {
    "input_norm": "attention_norm",
    "self_attn.qkv.linear_q": "attention.q_proj",
    "self_attn.qkv.linear_k": "attention.k_proj",
    "self_attn.qkv.val_proj1": "attention.v_proj_current",
    "self_attn.qkv.val_proj2": "attention.v_proj_delayed",
    "self_attn.qkv.conv_qk.0": "attention.conv_depthwise",
    "self_attn.qkv.conv_qk.1": "attention.conv_grouped",
    "self_attn.qkv.temp": "attention.temperature",
    "self_attn.o_proj": "attention.o_proj",
}
_OLD_EXPERT_NAMES = {
    "input_norm": "experts_norm",
    "res_scale": "attention_residual",
    "zaya_block.router.down_proj": "router.down_proj",
    "zaya_block.router.router_states_scale": "router.depth_scale",
    "zaya_block.router.rmsnorm_eda": "router.norm",
    "zaya_block.router.router_mlp.0": "router.fc1",
    "zaya_block.router.router_mlp.2": "router.fc2",
    "zaya_block.router.router_mlp.4": "router.out_proj",
    "zaya_block.router.balancing_biases": "router.balancing_bias",
}


def load_hf(folder: str | Path, skip: Literal["identity", "zero"] = "identity") -> Model:
    """Read a folder of ZAYA weights into a model in fp32, on the CPU.

    `skip` is what the skip class gives: `identity` as Zyphra trained it, `zero` as transformers 5.24 computes it.
    Raises ConfigError for a field it does not know or cannot honour, CheckpointError for weights that do not fit.
    """
    folder = Path(folder)
    fields = _read_json(folder / "config.json")
    is_old = "zaya_layers" in fields or "ffn_hidden_size" in fields
    config = config_from_hf(_modernised(fields) if is_old else fields, skip=skip)
    tensors = dict(_read_tensors(folder))
    named = _from_old_names(tensors, config) if is_old else {_our_name(name): value for name, value in tensors.items()}
    if config.tie_word_embeddings:
        named.pop("untied_head", None)
    with torch.device("meta"):
        model = Model(config)
    model.to_empty(device="cpu")
    model.init_weights(0)
    _fill(model, named)
    return model


def save_hf(model: Model, folder: str | Path, *, dtype: torch.dtype = torch.float32) -> None:
    """Write the folder that transformers' ZayaForCausalLM loads. Raises ConfigError for the linear router."""
    folder = Path(folder)
    fields = config_to_hf(model.config, dtype)
    tensors = {}
    for name, value in model.state_dict().items():
        kept = torch.float32 if name.endswith("balancing_bias") else dtype
        tensors[_hf_name(name)] = value.detach().to("cpu", kept).contiguous()
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(fields, indent=2, sort_keys=True) + "\n")


def config_from_hf(fields: Mapping[str, Any], *, skip: Literal["identity", "zero"]) -> ModelConfig:
    """Read transformers' ZayaConfig. Raises ConfigError naming every field it does not know or cannot honour."""
    known = {*_SAME_NAME, *_IGNORED, *_REQUIRED, "layer_types", "rope_parameters"}
    problems = [Problem(name, "is not a field of ZAYA that can be honoured") for name in fields if name not in known]
    for name, allowed in _REQUIRED.items():
        if name in fields and fields[name] not in allowed:
            problems.append(Problem(name, f"must be {allowed[0]!r}, not {fields[name]!r}"))
    values = {name: fields[name] for name in _SAME_NAME if name in fields}
    rope, types = fields.get("rope_parameters") or {}, fields.get("layer_types")
    if types is not None:
        problems += [
            Problem("layer_types", f"{kind!r} is not a layer of ZAYA") for kind in set(types) - _LAYER_TYPES.keys()
        ]
        values["layer_types"] = tuple(_LAYER_TYPES.get(kind, kind) for kind in types)
    problems += _rope_problems(rope)
    if problems:
        raise ConfigError(problems)
    full, sliding = rope.get("hybrid", rope if "rope_theta" in rope else {}), rope.get("hybrid_sliding", {})
    values["rope_theta"] = full.get("rope_theta", 5e6)
    values["sliding_rope_theta"] = sliding.get("rope_theta", 1e4)
    values["partial_rotary_factor"] = full.get("partial_rotary_factor", 0.5)
    if sliding and sliding.get("partial_rotary_factor", 0.5) != values["partial_rotary_factor"]:
        raise ConfigError([Problem("rope_parameters", "every layer type must rotate the same share of a head")])
    try:
        return ModelConfig(**values, skip=skip, key_temperature=0.0)
    except ValidationError as error:
        raise ConfigError(
            [Problem(".".join(map(str, detail["loc"])), detail["msg"]) for detail in error.errors()]
        ) from error


def config_to_hf(config: ModelConfig, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
    """Write transformers' ZayaConfig. Raises ConfigError for the linear router, which transformers does not have."""
    if config.router != "mlp":
        raise ConfigError([Problem("model.router", "only the mlp router has a place in transformers' ZAYA")])
    types = config.layer_types or ("full",) * config.num_hidden_layers
    hf_types = {ours: theirs for theirs, ours in _LAYER_TYPES.items()}
    rope = {"rope_type": "default", "partial_rotary_factor": config.partial_rotary_factor}
    return {name: getattr(config, name) for name in _SAME_NAME} | {
        "model_type": "zaya",
        "architectures": ["ZayaForCausalLM"],
        "dtype": str(dtype).removeprefix("torch."),
        "hidden_act": "silu",
        "attention_dropout": 0.0,
        "num_experts_per_tok": 1,
        "layer_types": [hf_types[kind] for kind in types],
        "rope_parameters": {
            "hybrid": {**rope, "rope_theta": config.rope_theta},
            "hybrid_sliding": {**rope, "rope_theta": config.sliding_rope_theta},
        },
    }


def _rope_problems(rope: Mapping[str, Any]) -> list[Problem]:
    groups = rope if any(isinstance(value, Mapping) for value in rope.values()) else {"hybrid": rope}
    problems = []
    for kind, group in groups.items():
        if kind not in _LAYER_TYPES or not isinstance(group, Mapping):
            problems.append(Problem(f"rope_parameters.{kind}", "is not a layer type of ZAYA"))
            continue
        if group.get("rope_type", "default") != "default":
            problems.append(Problem(f"rope_parameters.{kind}.rope_type", "only the default rotary embedding is known"))
        unknown = group.keys() - {"rope_type", "rope_theta", "partial_rotary_factor"}
        problems += [Problem(f"rope_parameters.{kind}.{name}", "cannot be honoured") for name in sorted(unknown)]
    return problems


def _modernised(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of the first release under today's names; its layer count is stale, the list of layers rules."""
    new = dict(fields)
    layers = new.pop("zaya_layers", None)
    if layers is not None:
        new["num_hidden_layers"] = len(layers) // 2
    elif "num_hidden_layers" in new:
        new["num_hidden_layers"] //= 2
    renamed = {
        "cca_num_q_heads": "num_attention_heads",
        "zaya_mlp_expansion": "router_hidden_size",
        "norm_epsilon": "rms_norm_eps",
    }
    for old, name in renamed.items():
        if old in new:
            value = new.pop(old)
            # Lists of the first release hold one value a sublayer, 0 where the sublayer has none.
            new[name] = max(value) if isinstance(value, list) else value
    if "ffn_hidden_size" in new:
        value = new.pop("ffn_hidden_size")
        new["moe_intermediate_size"] = (max(value) if isinstance(value, list) else value) // 2
    if isinstance(new.get("num_experts"), list):
        new["num_experts"] = max(new["num_experts"])
    windows = new.pop("swa_layers", None)
    if windows and any(windows):
        raise ConfigError([Problem("swa_layers", "sliding windows of the first release cannot be honoured")])
    theta, factor = new.pop("rope_theta", None), new.pop("partial_rotary_factor", None)
    group = {"rope_theta": theta, "partial_rotary_factor": factor}
    if given := {name: value for name, value in group.items() if value is not None}:
        new["rope_parameters"] = {"hybrid": given}
    if "head_dim" not in new and "kv_channels" in new:
        new["head_dim"] = new["kv_channels"]
    return new


def _our_name(name: str) -> str:
    for ours, theirs in _HF_NAMES.items():
        if name == theirs:
            return ours
    if block := re.fullmatch(r"model\.layers\.(\d+)\.(.+)", name):
        number, rest = block.groups()
        for ours, theirs in _HF_BLOCK_NAMES.items():
            if rest == theirs or rest.startswith(f"{theirs}."):
                return f"blocks.{number}.{ours}{rest[len(theirs) :]}"
    raise CheckpointError(f"{name} is not a tensor of ZAYA")


def _hf_name(name: str) -> str:
    if name in _HF_NAMES:
        return _HF_NAMES[name]
    _, number, rest = name.split(".", 2)
    part = next(part for part in _HF_BLOCK_NAMES if rest == part or rest.startswith(f"{part}."))
    return f"model.layers.{number}.{_HF_BLOCK_NAMES[part]}{rest[len(part) :]}"


def _from_old_names(tensors: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Join the alternating layers of the first release into blocks, and their separate experts into stacks."""
    named: dict[str, Tensor] = {}
    experts: dict[tuple[str, int], dict[int, Tensor]] = {}
    for name, value in tensors.items():
        match = re.fullmatch(r"model\.layers\.(\d+)\.(.+)", name)
        if match is None:
            named[_old_top_name(name, config.num_hidden_layers)] = value
            continue
        layer, rest = int(match[1]), match[2]
        expert = re.fullmatch(r"zaya_block\.experts\.local_experts\.(\d+)\.linear_fc([12])\.weight", rest)
        if expert:
            stack = "gate_up_proj" if expert[2] == "1" else "down_proj"
            experts.setdefault((stack, layer // 2), {})[int(expert[1])] = value
        else:
            named[_old_layer_name(name, layer, rest)] = value
    for (stack, block), parts in experts.items():
        if sorted(parts) != list(range(config.num_experts)):
            raise CheckpointError(f"block {block} holds experts {sorted(parts)}, not {config.num_experts} of them")
        named[f"blocks.{block}.experts.{stack}"] = torch.stack([parts[index] for index in range(len(parts))])
    return named


def _old_top_name(name: str, num_blocks: int) -> str:
    if name.startswith("model.res_scale."):
        return f"blocks.{num_blocks - 1}.experts_residual.{name.removeprefix('model.res_scale.')}"
    top = {"model.final_norm.weight": "norm.weight"}
    return top.get(name) or _our_name(name)


def _old_layer_name(name: str, layer: int, rest: str) -> str:
    if layer % 2 == 0 and rest.startswith("res_scale."):
        part = rest.removeprefix("res_scale.")
        if layer == 0:
            return {"hidden_states_scale": "input_scale", "hidden_states_bias": "input_bias"}[part]
        return f"blocks.{layer // 2 - 1}.experts_residual.{part}"
    for old, ours in (_OLD_EXPERT_NAMES if layer % 2 else _OLD_ATTENTION_NAMES).items():
        if rest == old or rest.startswith(f"{old}."):
            return f"blocks.{layer // 2}.{ours}{rest[len(old) :]}"
    raise CheckpointError(f"{name} is not a tensor of ZAYA")


@torch.no_grad()
def _fill(model: Model, named: Mapping[str, Tensor]) -> None:
    wanted = model.state_dict()
    if missing := sorted(wanted.keys() - named.keys()):
        raise CheckpointError(f"{len(missing)} tensors are missing, {missing[0]} ({_hf_name(missing[0])}) among them")
    if extra := sorted(named.keys() - wanted.keys()):
        raise CheckpointError(f"{len(extra)} tensors have no place in this config, {extra[0]} among them")
    for name, target in wanted.items():
        if named[name].shape != target.shape:
            raise CheckpointError(
                f"{_hf_name(name)} has shape {tuple(named[name].shape)}, the config asks for {tuple(target.shape)}"
            )
        target.copy_(named[name])


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return json.loads(path.read_text())
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise CheckpointError(f"{path} is not JSON: {error}") from error


def _read_tensors(folder: Path) -> Iterator[tuple[str, Tensor]]:
    index, single = folder / "model.safetensors.index.json", folder / "model.safetensors"
    if index.exists():
        paths = [folder / file for file in sorted(set(_read_json(index)["weight_map"].values()))]
    else:
        paths = [single] if single.exists() else sorted(folder.glob("*.safetensors"))
    if not paths:
        raise CheckpointError(f"{folder} holds no *.safetensors file")
    for path in paths:
        try:
            with safe_open(path, framework="pt") as file:
                for name in file.keys():  # noqa: SIM118 - it is no mapping
                    yield name, file.get_tensor(name)
        except (OSError, SafetensorError) as error:
            raise CheckpointError(f"{path} cannot be read: {error}") from error
