"""Folders of Hugging Face weights: read under both sets of names, refused with a reason, written for transformers."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import ZayaForCausalLM

from tests.zaya_model.model.random_weights import hf_config, hf_model, save_folder
from zaya_model.checkpoint.interop import load_hf, save_hf
from zaya_model.checkpoint.interop_config import config_from_hf, config_to_hf
from zaya_model.config import ModelConfig
from zaya_model.errors import CheckpointError, ConfigError
from zaya_model.model import Model

CASE = Path(__file__).parents[2] / "fixtures" / "zaya_case_a"
IDS = torch.arange(22).view(2, 11)
OLD_NAMES = [
    (r"model\.norm\.weight", "model.final_norm.weight"),
    (r"model\.input_hidden_states_(\w+)", r"model.layers.0.res_scale.hidden_states_\1"),
    (r"input_layernorm", "A.input_norm"),
    (r"self_attn\.qkv_proj\.q_proj", "A.self_attn.qkv.linear_q"),
    (r"self_attn\.qkv_proj\.k_proj", "A.self_attn.qkv.linear_k"),
    (r"self_attn\.qkv_proj\.v_proj_current", "A.self_attn.qkv.val_proj1"),
    (r"self_attn\.qkv_proj\.v_proj_delayed", "A.self_attn.qkv.val_proj2"),
    (r"self_attn\.qkv_proj\.conv_qk_depthwise", "A.self_attn.qkv.conv_qk.0"),
    (r"self_attn\.qkv_proj\.conv_qk_grouped", "A.self_attn.qkv.conv_qk.1"),
    (r"self_attn\.qk_norm\.temp", "A.self_attn.qkv.temp"),
    (r"self_attn\.o_proj", "A.self_attn.o_proj"),
    (r"post_attention_residual_scale", "M.res_scale"),
    (r"post_attention_layernorm", "M.input_norm"),
    (r"mlp\.gate\.down_proj", "M.zaya_block.router.down_proj"),
    (r"mlp\.gate\.router_states_scale", "M.zaya_block.router.router_states_scale"),
    (r"mlp\.gate\.router_mlp\.norm", "M.zaya_block.router.rmsnorm_eda"),
    (r"mlp\.gate\.router_mlp\.fc1", "M.zaya_block.router.router_mlp.0"),
    (r"mlp\.gate\.router_mlp\.fc2", "M.zaya_block.router.router_mlp.2"),
    (r"mlp\.gate\.router_mlp\.out_proj", "M.zaya_block.router.router_mlp.4"),
    (r"mlp\.gate\.balancing_biases", "M.zaya_block.router.balancing_biases"),
    (r"post_mlp_residual_scale", "N.res_scale"),
]


def old_tensors(new: dict[str, Tensor], num_blocks: int) -> dict[str, Tensor]:
    """The same weights as the first release named them: alternating layers, experts apart."""
    old = {}
    for name, value in new.items():
        if match := re.fullmatch(r"model\.layers\.(\d+)\.mlp\.experts\.(\w+)", name):
            linear = {"gate_up_proj": "linear_fc1", "down_proj": "linear_fc2"}[match[2]]
            for expert, matrix in enumerate(value):
                layer = f"model.layers.{2 * int(match[1]) + 1}.zaya_block.experts.local_experts.{expert}"
                old[f"{layer}.{linear}.weight"] = matrix.contiguous()
            continue
        for pattern, replacement in OLD_NAMES:
            name = re.sub(pattern, replacement, name)
        if match := re.fullmatch(r"model\.layers\.(\d+)\.([AMN])\.(.+)", name):
            layer = 2 * int(match[1]) + "AMN".index(match[2])
            name = "model.final" if layer == 2 * num_blocks else f"model.layers.{layer}"
            name = f"{name}.{match[3]}".replace("model.final.", "model.")
        old[name] = value
    return old


def old_fields(new: dict[str, Any]) -> dict[str, Any]:
    """The config of a model of two blocks as the first release wrote it, a value for each layer."""
    return {
        "model_type": "zaya", "architectures": ["ZayaForCausalLM"], "cca": True, "num_hidden_layers": 120,
        "zaya_layers": ["a", new["num_experts"]] * 2, "cca_num_q_heads": [new["num_attention_heads"], 0] * 2,
        "num_query_groups_list": [new["num_key_value_heads"], 0] * 2, "num_key_value_heads": new["num_key_value_heads"],
        "ffn_hidden_size_list": [0, 2 * new["moe_intermediate_size"]] * 2, "vocab_size": new["vocab_size"],
        "hidden_size": new["hidden_size"], "num_attention_heads": new["hidden_size"] // new["head_dim"],
        "activation_func": "swiglu", "norm_epsilon": 1e-5, "pad_token_id": None, "tie_word_embeddings": True,
        "rope_theta": 1e4, "moe_router_topk": 1, "zaya_mlp_expansion": [0, new["router_hidden_size"]] * 2,
        "zaya_use_mod": True, "zaya_use_eda": True, "scale_residual_merge": True, "residual_in_fp32": False,
        "add_bias_linear": False, "gated_linear_unit": True, "partial_rotary_factor": 0.5, "sliding_window": None,
        "normalization": "RMSNorm", "rope_scaling": None, "attention_dropout": 0.0, "torch_dtype": "bfloat16",
    }  # fmt: skip


def two_blocks(folder: Path, **fields: Any) -> ZayaForCausalLM:
    model = hf_model(hf_config(num_hidden_layers=2, **fields))
    save_folder(model, folder)
    return model


def make_old(folder: Path, fields: dict[str, Any]) -> None:
    """Rename the weights of a folder and give it an old config."""
    tensors = load_file(folder / "model.safetensors")
    save_file(old_tensors(tensors, num_blocks=2), folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(fields))


def change_fields(folder: Path, **fields: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def same_logits(left: Any, right: Any) -> None:
    def logits(model: Any) -> Tensor:
        out = model(IDS)
        return getattr(out, "logits", out).detach()

    torch.testing.assert_close(logits(left), logits(right), atol=2e-5, rtol=0)


def test_the_first_release_is_read_with_a_value_for_each_layer(tmp_path: Path) -> None:
    theirs = two_blocks(tmp_path)
    fields = theirs.config.to_dict()
    make_old(tmp_path, old_fields(fields))
    same_logits(load_hf(tmp_path, skip="zero"), theirs)


@pytest.mark.parametrize("num_hidden_layers", [2, 4])
def test_the_first_release_is_read_with_single_values(tmp_path: Path, num_hidden_layers: int) -> None:
    theirs = two_blocks(tmp_path)
    fields = old_fields(theirs.config.to_dict())
    for name in ("zaya_layers", "num_query_groups_list", "ffn_hidden_size_list", "cca_num_q_heads"):
        fields.pop(name)
    fields |= {
        "num_hidden_layers": num_hidden_layers, "num_experts": 3, "num_query_groups": 2, "ffn_hidden_size": 40,
        "num_attention_heads": 4, "head_dim": 8, "zaya_mlp_expansion": 12,
    }  # fmt: skip
    make_old(tmp_path, fields)
    same_logits(load_hf(tmp_path, skip="zero"), theirs)


def test_old_names_are_read_under_a_new_config(tmp_path: Path) -> None:
    theirs = two_blocks(tmp_path)
    make_old(tmp_path, json.loads((tmp_path / "config.json").read_text()))
    same_logits(load_hf(tmp_path, skip="zero"), theirs)


def test_an_old_window_does_not_count_the_token_itself(tmp_path: Path) -> None:
    rope = {"rope_type": "default", "partial_rotary_factor": 0.5}
    theirs = two_blocks(
        tmp_path, layer_types=["hybrid_sliding", "hybrid"], sliding_window=4,
        rope_parameters={"hybrid": rope | {"rope_theta": 1e4}, "hybrid_sliding": rope | {"rope_theta": 50.0}},
    )  # fmt: skip
    make_old(tmp_path, old_fields(theirs.config.to_dict()) | {"swa_layers": [3, 0, 0, 0], "swa_rotary_base": 50})
    same_logits(load_hf(tmp_path, skip="zero"), theirs)


def test_shards_with_an_index_are_read(tmp_path: Path) -> None:
    model = load_hf(CASE)
    save_hf(model, tmp_path, max_shard_bytes=100_000)
    assert len(list(tmp_path.glob("model-*-of-*.safetensors"))) > 2
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), load_hf(tmp_path).parameters(), strict=True))


def test_shards_are_read_by_transformers(tmp_path: Path) -> None:
    model = Model(load_hf(CASE, skip="zero").config, seed=3)
    save_hf(model, tmp_path, max_shard_bytes=100_000)
    same_logits(ZayaForCausalLM.from_pretrained(tmp_path), model)


def test_a_tied_head_may_be_stored_twice_but_must_be_the_embedding(tmp_path: Path) -> None:
    two_blocks(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    save_file(tensors, tmp_path / "model.safetensors")
    load_hf(tmp_path)
    tensors["lm_head.weight"] += 1
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"lm_head\.weight is not the embedding"):
        load_hf(tmp_path)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"tie_word_embeddings": False, "lm_head_bias": True, "attention_bias": True},
        {"cca_time0": 3, "cca_time1": 1, "rms_norm_eps": 1e-6, "pad_token_id": 2},
    ],
    ids=["plain", "biases and an untied head", "other kernels"],
)
def test_transformers_loads_what_is_exported(tmp_path: Path, fields: dict[str, Any]) -> None:
    config = load_hf(CASE, skip="zero").config.model_copy(update=fields)
    model = Model(config, seed=5)
    save_hf(model, tmp_path)
    same_logits(ZayaForCausalLM.from_pretrained(tmp_path), model)


def test_a_moved_skip_bias_survives_from_pretrained_when_anchored(tmp_path: Path) -> None:
    model = load_hf(CASE, skip="zero")
    save_hf(model, tmp_path, anchor_skip=True)
    same_logits(ZayaForCausalLM.from_pretrained(tmp_path), model)
    same_logits(load_hf(tmp_path, skip="zero"), model)
    assert "-1 everywhere" in (tmp_path / "README.md").read_text()


def test_a_moved_skip_bias_is_written_as_it_is_and_the_notes_say_what_to_do(tmp_path: Path) -> None:
    model = load_hf(CASE, skip="zero")
    save_hf(model, tmp_path)
    theirs = ZayaForCausalLM.from_pretrained(tmp_path)
    theirs.load_state_dict(load_file(tmp_path / "model.safetensors"), strict=False)
    same_logits(theirs, model)
    assert "load_state_dict" in (tmp_path / "README.md").read_text()


def test_import_and_export_again_give_the_same_bytes(tmp_path: Path) -> None:
    save_hf(load_hf(CASE), tmp_path / "first")
    save_hf(load_hf(tmp_path / "first"), tmp_path / "second")
    for name in ("model.safetensors", "config.json", "README.md"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    original, exported = load_file(CASE / "model.safetensors"), load_file(tmp_path / "first" / "model.safetensors")
    assert original.keys() == exported.keys()
    assert all(torch.equal(original[name], exported[name]) for name in original)


def test_what_transformers_saves_comes_back_byte_for_byte(tmp_path: Path) -> None:
    hf_model(hf_config()).save_pretrained(tmp_path / "theirs")
    save_hf(load_hf(tmp_path / "theirs"), tmp_path / "ours")
    name = "model.safetensors"
    assert (tmp_path / "theirs" / name).read_bytes() == (tmp_path / "ours" / name).read_bytes()


def test_bf16_weights_come_back_the_same_and_biases_stay_fp32(tmp_path: Path) -> None:
    save_hf(load_hf(CASE), tmp_path / "first", dtype=torch.bfloat16)
    save_hf(load_hf(tmp_path / "first"), tmp_path / "second", dtype=torch.bfloat16)
    first, second = (load_file(tmp_path / name / "model.safetensors") for name in ("first", "second"))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert first["model.layers.0.mlp.gate.balancing_biases"].dtype == torch.float32
    assert first["model.norm.weight"].dtype == torch.bfloat16


def test_every_model_config_survives_the_way_to_hugging_face_and_back() -> None:
    config = ModelConfig(
        num_hidden_layers=2, layer_types=("sliding", "full"), sliding_window=3, sliding_rope_theta=77.0,
        rope_theta=5e6, partial_rotary_factor=0.25, cca_time0=3, attention_bias=True, lm_head_bias=True,
        tie_word_embeddings=False, pad_token_id=3, rms_norm_eps=1e-6, key_temperature=0.0,
    )  # fmt: skip
    assert config_from_hf(config_to_hf(config), skip=config.skip) == config


def test_what_a_config_leaves_out_is_as_in_transformers() -> None:
    config = config_from_hf({"model_type": "zaya"}, skip="identity")
    assert (config.vocab_size, config.hidden_size, config.num_hidden_layers) == (262_272, 2048, 40)
    assert (config.rope_theta, config.partial_rotary_factor, config.pad_token_id) == (5e6, 0.5, 0)


def test_the_published_config_with_its_stray_rope_type_is_read() -> None:
    group = {"rope_type": "default", "rope_theta": 1e6, "partial_rotary_factor": 0.5}
    fields = {"rope_parameters": {"hybrid": group, "rope_type": "default"}}
    assert config_from_hf(fields, skip="identity").rope_theta == 1e6


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"frobnication": 3}, "frobnication"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"num_experts_per_tok": 2}, "num_experts_per_tok"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"attention_dropout": 0.1}, "attention_dropout"),
        ({"clamp_temp": True}, "clamp_temp"),
        ({"rope_theta": 1e6}, "rope_theta"),
        ({"rope_scaling": {"factor": 2}}, "rope_scaling"),
        ({"model_type": "llama"}, "model_type"),
        ({"vocab_size": 0}, "vocab_size"),
        ({"num_hidden_layers": "many"}, "num_hidden_layers"),
        ({"num_key_value_heads": 3}, "num_key_value_heads"),
        ({"layer_types": ["hybrid"]}, "layer_types"),
        ({"layer_types": ["mamba"] * 3}, "layer_types"),
        ({"layer_types": ["hybrid_sliding"] * 3}, "rope_parameters.hybrid_sliding"),
        ({"rope_parameters": {"hybrid": {"rope_type": "yarn", "rope_theta": 1e4}}}, "rope_parameters.hybrid.rope_type"),
        ({"rope_parameters": {"hybrid": {"rope_theta": 1e4, "factor": 8}}}, "rope_parameters.hybrid.factor"),
        ({"zaya_layers": ["a", "a", 3, 3]}, "zaya_layers"),
        ({"zaya_layers": ["a", 3, "a", 4, "a", 3], "rope_theta": 1e4}, "zaya_layers"),
        ({"ffn_hidden_size": 6}, "ffn_hidden_size"),
        ({"norm_epsilon": 1e-3}, "norm_epsilon"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_config_that_cannot_be_honoured_is_refused_by_name(fields: dict[str, Any], named: str) -> None:
    whole = json.loads((CASE / "config.json").read_text()) | fields
    with pytest.raises(ConfigError) as refused:
        config_from_hf(whole, skip="identity")
    assert named in [problem.path for problem in refused.value.problems]


def test_an_old_config_must_say_its_rotary_base(tmp_path: Path) -> None:
    fields = old_fields(two_blocks(tmp_path).config.to_dict())
    del fields["rope_theta"]
    with pytest.raises(ConfigError, match="rope_theta: must be given"):
        config_from_hf(fields, skip="identity")


def test_missing_extra_and_misshapen_tensors_are_named(tmp_path: Path) -> None:
    two_blocks(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    gone = tensors.pop("model.norm.weight")
    save_file(tensors | {"model.layers.0.surprise": gone}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"missing: model\.norm\.weight; .* no place .*layers\.0\.surprise"):
        load_hf(tmp_path)
    save_file(tensors | {"model.norm.weight": gone[:-1]}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight has shape \(31,\), the config asks for \(32,\)"):
        load_hf(tmp_path)
    save_file(tensors | {"model.norm.weight": gone.to(torch.int8)}, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"model\.norm\.weight is stored as torch\.int8"):
        load_hf(tmp_path)


def test_an_expert_that_is_missing_from_the_first_release_is_named(tmp_path: Path) -> None:
    theirs = two_blocks(tmp_path)
    make_old(tmp_path, old_fields(theirs.config.to_dict()))
    tensors = load_file(tmp_path / "model.safetensors")
    del tensors["model.layers.3.zaya_block.experts.local_experts.1.linear_fc2.weight"]
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"layers\.3\.zaya_block\.experts\.local_experts\.1\.linear_fc2"):
        load_hf(tmp_path)


def test_damaged_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no \*\.safetensors"):
        load_hf(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"not a tensor in sight")
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_hf(tmp_path)
    two_blocks(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(CheckpointError, match="is not JSON"):
        load_hf(tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"config\.json cannot be read"):
        load_hf(tmp_path)


def test_a_shard_that_is_missing_or_given_twice_is_named(tmp_path: Path) -> None:
    save_hf(load_hf(CASE), tmp_path, max_shard_bytes=200_000)
    index = tmp_path / "model.safetensors.index.json"
    first = sorted(tmp_path.glob("model-*.safetensors"))[0]
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(first.read_bytes())
    kept = index.read_text()
    index.unlink()
    with pytest.raises(CheckpointError, match="there twice"):
        load_hf(tmp_path)
    index.write_text(kept)
    load_hf(tmp_path)
    first.unlink()
    with pytest.raises(CheckpointError, match=first.name):
        load_hf(tmp_path)


def test_an_index_that_points_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "../secret.safetensors"}}')
    with pytest.raises(CheckpointError, match="beside it"):
        load_hf(tmp_path)


def test_the_linear_router_has_no_place_in_transformers(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="router"):
        save_hf(Model(ModelConfig(router="linear")), tmp_path)
