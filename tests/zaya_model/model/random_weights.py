"""Small ZAYA models with random weights of which none is trivial, as transformers builds them."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import ZayaConfig, ZayaForCausalLM

SMALL = {
    "vocab_size": 61, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 8, "num_experts": 3, "moe_intermediate_size": 20, "router_hidden_size": 12, "pad_token_id": None,
    "bos_token_id": None, "eos_token_id": None, "max_position_embeddings": 64,
    "rope_parameters": {"hybrid": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
}  # fmt: skip


def hf_config(**fields: Any) -> ZayaConfig:
    return ZayaConfig(**(SMALL | fields))


@torch.no_grad()
def hf_model(config: ZayaConfig, seed: int = 3) -> ZayaForCausalLM:
    """Every parameter is random; the skip class is as likely as an expert."""
    model = ZayaForCausalLM._from_config(config, attn_implementation="eager").float()
    generator = torch.Generator().manual_seed(seed)

    def drawn(tensor: torch.Tensor) -> torch.Tensor:
        return torch.randn(tensor.shape, generator=generator)

    for name, parameter in model.named_parameters():
        if name.endswith(("_scale", "norm.weight", "temp", "layernorm.weight")):
            parameter.copy_(1 + 0.3 * drawn(parameter))
        elif parameter.ndim == 1:
            parameter.copy_(0.3 * drawn(parameter))
        else:
            parameter.copy_(drawn(parameter) * parameter[0].numel() ** -0.5)
        if name.endswith("router_mlp.out_proj.weight"):
            parameter.mul_(4)
    for name, buffer in model.named_buffers():
        if name.endswith("balancing_biases"):
            buffer.copy_(0.1 * drawn(buffer))
            buffer[-1] += 0.2
    return model.train()


def save_folder(model: ZayaForCausalLM, folder: Path) -> None:
    """Write as `save_pretrained` would, without its side effects."""
    tensors = {name: value.contiguous() for name, value in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        tensors.pop("lm_head.weight")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    model.config.to_json_file(folder / "config.json", use_diff=False)
