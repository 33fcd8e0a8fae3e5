"""The fields of transformers' ZayaConfig and of Zyphra's first release, read into the one schema and written back.

Every field is honoured, known to change no number, required to have the one value that the model computes, or refused.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from zaya_model.config import ModelConfig
from zaya_model.errors import ConfigError, Problem

# What a field is when config.json leaves it out: the defaults of transformers' ZayaConfig.
_SAME_NAME: dict[str, Any] = {
    "vocab_size": 262_272, "hidden_size": 2048, "num_hidden_layers": 40, "num_attention_heads": 8,
    "num_key_value_heads": 2, "head_dim": 128, "cca_time0": 2, "cca_time1": 2, "num_experts": 16,
    "moe_intermediate_size": 2048, "router_hidden_size": 256, "max_position_embeddings": 131_072,
    "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "attention_bias": False, "lm_head_bias": False,
    "initializer_range": 0.02, "sliding_window": None, "pad_token_id": 0,
}  # fmt: skip
_LAYER_TYPES = {"hybrid": "full", "hybrid_sliding": "sliding"}
_ROPE = {
    "hybrid": {"rope_theta": 5e6, "partial_rotary_factor": 0.5},
    "hybrid_sliding": {"rope_theta": 1e4, "partial_rotary_factor": 0.5},
}
# Switches that the released models all set alike; another value would be another architecture.
_REQUIRED: dict[str, tuple[Any, ...]] = {
    "model_type": ("zaya",), "hidden_act": ("silu",), "attention_dropout": (0.0,), "num_experts_per_tok": (1,),
    "moe_router_topk": (1,), "cca": (True,), "zaya_use_mod": (True,), "zaya_use_eda": (True,),
    "scale_residual_merge": (True,), "gated_linear_unit": (True,), "activation_func": ("swiglu",),
    "add_bias_linear": (False,), "bias_on_expert": (False,), "clamp_temp": (False,), "normalization": ("RMSNorm",),
    "activation_func_fp8_input_store": (False,), "rope_scaling": (None,), "is_encoder_decoder": (False,),
    "add_cross_attention": (False,), "zaya_high_prec": (True,),
}  # fmt: skip
# The first release's models disagree on `residual_in_fp32`, which in fp32 changes nothing; here the stream always is.
_WITHOUT_EFFECT = {
    "apply_rope_fusion", "bias_activation_fusion", "fused_add_norm", "residual_in_fp32", "use_grouped_mm",
    "_attn_implementation", "_attn_implementation_autoset", "_experts_implementation", "_name_or_path",
    "architectures", "auto_map", "bad_words_ids", "begin_suppress_tokens", "bos_token_id",
    "chunk_size_feed_forward", "cross_attention_hidden_size", "decoder_start_token_id", "diversity_penalty",
    "do_sample", "dtype", "early_stopping", "encoder_no_repeat_ngram_size", "eos_token_id",
    "exponential_decay_length_penalty", "finetuning_task", "forced_bos_token_id", "forced_eos_token_id",
    "id2label", "is_decoder", "keys_to_ignore_at_inference", "label2id", "length_penalty", "max_length",
    "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences",
    "output_attentions", "output_hidden_states", "output_router_logits", "output_scores", "prefix",
    "problem_type", "pruned_heads", "remove_invalid_values", "repetition_penalty", "return_dict",
    "return_dict_in_generate", "sep_token_id", "suppress_tokens", "task_specific_params", "temperature",
    "tf_legacy_loss", "tie_encoder_decoder", "tokenizer_class", "top_k", "top_p", "torch_dtype", "torchscript",
    "transformers_version", "typical_p", "use_bfloat16", "use_cache",
}  # fmt: skip
# Names of the first release which hold the same as a field of today, as one value or one for each alternating layer.
_OLD_NAMES = {
    "cca_num_q_heads": "num_attention_heads",
    "num_query_groups": "num_key_value_heads",
    "num_query_groups_list": "num_key_value_heads",
    "cca_num_k_heads": "num_key_value_heads",
    "zaya_mlp_expansion": "router_hidden_size",
    "ffn_hidden_size": "moe_intermediate_size",
    "ffn_hidden_size_list": "moe_intermediate_size",
    "norm_epsilon": "rms_norm_eps",
    "kv_channels": "head_dim",
}
_OLD_MARKS = frozenset(["zaya_layers", *_OLD_NAMES])


def config_from_hf(fields: Mapping[str, Any], *, skip: str, num_old_layers: int = 0) -> ModelConfig:
    """Read the fields of a config.json, of transformers or of the first release.

    `num_old_layers` is how many alternating layers the weights have, where they bear the old names.
    Raises ConfigError naming every field that is unknown or cannot be honoured.
    """
    if num_old_layers or _OLD_MARKS & fields.keys():
        fields = _modernised(fields, num_old_layers)
    problems = [
        Problem(name, "is no field of ZAYA that can be honoured; remove it if it changes no number")
        for name in fields.keys() - {*_SAME_NAME, *_WITHOUT_EFFECT, *_REQUIRED, "layer_types", "rope_parameters"}
    ]
    for name, allowed in _REQUIRED.items():
        if name in fields and fields[name] not in allowed:
            problems.append(Problem(name, f"must be {allowed[0]!r}, not {fields[name]!r}"))
    values = {name: fields.get(name, default) for name, default in _SAME_NAME.items()}
    types = fields.get("layer_types") or ["hybrid"]
    unknown_types = sorted(set(types) - _LAYER_TYPES.keys())
    problems += [Problem("layer_types", f"{kind!r} is not a layer of ZAYA") for kind in unknown_types]
    rope = _read_rope(fields.get("rope_parameters"), set(types), problems)
    if problems:
        raise ConfigError(sorted(problems, key=lambda problem: problem.path))
    if fields.get("layer_types") and (set(types) != {"hybrid"} or len(types) != values["num_hidden_layers"]):
        values["layer_types"] = tuple(_LAYER_TYPES[kind] for kind in types)
    try:
        return ModelConfig(**values, **rope, skip=skip, key_temperature=0.0)
    except ValidationError as error:
        raise ConfigError([_explain(detail) for detail in error.errors()]) from error


def config_to_hf(config: ModelConfig, *, dtype: str = "float32", eos_token_id: int | None = None) -> dict[str, Any]:
    """Write transformers' ZayaConfig. Raises ConfigError for the linear router, which transformers does not have."""
    if config.router != "mlp":
        raise ConfigError([Problem("model.router", "only the mlp router has a place in transformers' ZAYA")])
    types = config.layer_types or ("full",) * config.num_hidden_layers
    theirs = {ours: kind for kind, ours in _LAYER_TYPES.items()}
    rope = {"rope_type": "default", "partial_rotary_factor": config.partial_rotary_factor}
    return {name: getattr(config, name) for name in _SAME_NAME} | {
        "model_type": "zaya",
        "architectures": ["ZayaForCausalLM"],
        "dtype": dtype,
        "hidden_act": "silu",
        "attention_dropout": 0.0,
        "num_experts_per_tok": 1,
        "bos_token_id": None,
        "eos_token_id": eos_token_id,
        "layer_types": [theirs[kind] for kind in types],
        "rope_parameters": {
            "hybrid": {**rope, "rope_theta": config.rope_theta},
            "hybrid_sliding": {**rope, "rope_theta": config.sliding_rope_theta},
        },
    }


def _read_rope(given: Any, types: set[str], problems: list[Problem]) -> dict[str, float]:
    """Our three rotary fields; appends what cannot be honoured to `problems`."""
    if given is None:
        given = _ROPE
    if not isinstance(given, Mapping):
        problems.append(Problem("rope_parameters", f"must be an object, not {given!r}"))
        return {}
    # The published config has a stray `rope_type` beside its groups; one group alone may stand without its name.
    groups = dict(given) if any(isinstance(group, Mapping) for group in given.values()) else {"hybrid": given}
    if "hybrid" in groups and groups.pop("rope_type", "default") != "default":
        problems.append(Problem("rope_parameters.rope_type", "only the default rotary embedding is known"))
    for kind in groups.keys() - _LAYER_TYPES.keys():
        problems.append(Problem(f"rope_parameters.{kind}", "is not a layer type of ZAYA"))
    for kind in types & _LAYER_TYPES.keys() - groups.keys():
        problems.append(Problem(f"rope_parameters.{kind}", "is missing, though layer_types has such a layer"))
    found = {}
    for kind in _LAYER_TYPES.keys() & groups.keys():
        group = {"rope_type": "default", **groups[kind]}
        if group.pop("rope_type") != "default":
            problems.append(Problem(f"rope_parameters.{kind}.rope_type", "only the default rotary embedding is known"))
        for name in group.keys() - _ROPE[kind].keys():
            problems.append(Problem(f"rope_parameters.{kind}.{name}", "cannot be honoured"))
        found[kind] = {name: group.get(name, default) for name, default in _ROPE[kind].items()}
    used = [found[kind]["partial_rotary_factor"] for kind in _LAYER_TYPES if kind in types & found.keys()]
    if len(set(used)) > 1:
        problems.append(Problem("rope_parameters", "every layer type must rotate the same share of a head"))
    return {
        "rope_theta": found.get("hybrid", _ROPE["hybrid"])["rope_theta"],
        "sliding_rope_theta": found.get("hybrid_sliding", _ROPE["hybrid_sliding"])["rope_theta"],
        "partial_rotary_factor": used[0] if used else 0.5,
    }


def _modernised(fields: Mapping[str, Any], num_old_layers: int) -> dict[str, Any]:
    """The first release's fields under today's names. Raises ConfigError for what cannot be honoured."""
    new, problems = dict(fields), []
    layers = new.pop("zaya_layers", None)
    new["num_hidden_layers"] = _num_blocks(new, layers, num_old_layers, problems)
    if layers:
        experts = [layer for layer in layers if not isinstance(layer, str)]
        _put(new, "num_experts", _uniform("zaya_layers", experts, problems), "zaya_layers", problems)
    if "cca_num_q_heads" in new and "num_attention_heads" in new:
        # The old count of heads is before compression; it says how wide a head is, where nothing else does.
        width = new.get("hidden_size", _SAME_NAME["hidden_size"]) // new.pop("num_attention_heads")
        if "kv_channels" not in new:
            new.setdefault("head_dim", width)
    for old, name in _OLD_NAMES.items():
        if old in new:
            value = _uniform(old, new.pop(old), problems)
            if name == "moe_intermediate_size" and isinstance(value, int):
                value //= 2
            _put(new, name, value, old, problems)
    if new.get("sliding_window") is not None and not (new.get("swa_layers") or new.get("layer_types")):
        problems.append(Problem("sliding_window", "cannot be honoured without swa_layers, which say where it slides"))
    _modernise_rope(new, problems)
    if problems:
        raise ConfigError(problems)
    return new


def _num_blocks(new: dict[str, Any], layers: Any, num_old_layers: int, problems: list[Problem]) -> int:
    """Blocks of two layers each; where the list of layers is given, the plain count may be stale."""
    if layers is not None:
        is_pair = all(isinstance(layer, str) == (index % 2 == 0) for index, layer in enumerate(layers))
        if not layers or len(layers) % 2 or not is_pair:
            problems.append(Problem("zaya_layers", "must alternate between attention and experts"))
        return len(layers) // 2
    count = new.get("num_hidden_layers", num_old_layers)
    if num_old_layers and count not in (num_old_layers, num_old_layers // 2):
        problems.append(Problem("num_hidden_layers", f"is {count}, but the weights have {num_old_layers} layers"))
    return num_old_layers // 2 or count // 2


def _modernise_rope(new: dict[str, Any], problems: list[Problem]) -> None:
    """Rotary base and windows; an old window does not count the token itself, today's does."""
    windows = new.pop("swa_layers", None)
    base = {"rope_theta": new.pop("rope_theta", None) or new.pop("rotary_base", None)}
    sliding = {"rope_theta": new.pop("swa_rotary_base", None) or base["rope_theta"]}
    new.pop("rotary_base", None)
    factor = new.pop("partial_rotary_factor", None)
    if new.get("rope_parameters") is None:
        if base["rope_theta"] is None:
            problems.append(Problem("rope_theta", "must be given: the first release's models differ in it"))
        factor = {"partial_rotary_factor": 0.5 if factor is None else factor}
        new["rope_parameters"] = {"hybrid": base | factor, "hybrid_sliding": sliding | factor}
    if windows and any(windows):
        new["layer_types"] = ["hybrid_sliding" if window else "hybrid" for window in windows[::2]]
        new["sliding_window"] = _uniform("swa_layers", windows, problems) + 1


def _uniform(name: str, value: Any, problems: list[Problem]) -> Any:
    """The one value of a list with an entry for each layer; 0 stands where a layer has no such thing."""
    if not isinstance(value, list):
        return value
    values = [entry for entry in value if entry] or [0]
    if any(entry != values[0] for entry in values):
        problems.append(Problem(name, f"must be the same in every layer, not {value}"))
    return values[0]


def _put(new: dict[str, Any], name: str, value: Any, old: str, problems: list[Problem]) -> None:
    if new.setdefault(name, value) != value:
        problems.append(Problem(old, f"says {value!r}, but {name} says {new[name]!r}"))


def _explain(detail: Mapping[str, Any]) -> Problem:
    context = detail.get("ctx", {})
    path = [str(part) for part in detail["loc"]] + ([context["field"]] if "field" in context else [])
    return Problem(".".join(path), detail["msg"])
