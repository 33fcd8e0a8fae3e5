"""Parameters, memory, FLOPs and hours of a config, computed without torch.

FLOPs count a multiply and an add as two. One token's forward pass is counted; training takes three times that
(the backward pass has twice the products of the forward pass).
"""

from dataclasses import asdict, dataclass
from typing import Any

from zaya_model.config import ModelConfig, Phase, RunConfig


@dataclass(frozen=True)
class Parameters:
    """Parameters by part of the model; `active` counts the one expert a token takes, without the embedding."""

    embedding: int
    attention: int
    router: int
    experts: int
    scales: int
    active: int

    @property
    def total(self) -> int:
        """All of them, a tied head once."""
        return self.embedding + self.attention + self.router + self.experts + self.scales


def count_parameters(model: ModelConfig) -> Parameters:
    """Count as the model would be built."""
    D, L, R = model.hidden_size, model.num_hidden_layers, model.router_hidden_size
    width_q, width_k = model.num_attention_heads * model.head_dim, model.num_key_value_heads * model.head_dim
    channels = width_q + width_k
    bias = (width_q + 2 * width_k + D) if model.attention_bias else 0
    attention = (
        D * (width_q + 2 * width_k) + width_q * D + bias
        + channels * (model.cca_time0 + 1) + channels * (model.head_dim * model.cca_time1 + 1)
        + model.num_key_value_heads
    )  # fmt: skip
    classes = model.num_experts + 1
    if model.router == "linear":
        routers = L * D * classes
    else:
        routers = L * (D * R + R + R + 2 * (R * R + R) + R * classes) + (L - 1) * R
    one_expert = 3 * D * model.moe_intermediate_size
    scales = L * (2 * D + 8 * D) + 3 * D
    heads = 1 if model.tie_word_embeddings else 2
    return Parameters(
        embedding=heads * model.vocab_size * D + (model.vocab_size if model.lm_head_bias else 0),
        attention=L * attention,
        router=routers,
        experts=L * model.num_experts * one_expert,
        scales=scales,
        active=L * (attention + one_expert) + routers + scales,
    )


def forward_flops_per_token(model: ModelConfig, sequence_length: int) -> float:
    """Products of one token's forward pass at this length; a token attends to half the sequence on average."""
    D, R = model.hidden_size, model.router_hidden_size
    width_q, width_k = model.num_attention_heads * model.head_dim, model.num_key_value_heads * model.head_dim
    channels = width_q + width_k
    projections = D * (width_q + 2 * width_k) + width_q * D
    convolutions = channels * model.cca_time0 + channels * model.head_dim * model.cca_time1
    classes = model.num_experts + 1
    router = D * classes if model.router == "linear" else D * R + 2 * R * R + R * classes
    expert = 3 * D * model.moe_intermediate_size
    seen = sum(_mean_context(model, kind, sequence_length) for kind in _kinds(model))
    block = projections + convolutions + router + expert
    return 2.0 * (model.num_hidden_layers * block + 2 * width_q * seen + model.vocab_size * D)


def training_flops_per_token(model: ModelConfig, sequence_length: int) -> float:
    """Forward and backward products of one token."""
    return 3.0 * forward_flops_per_token(model, sequence_length)


@dataclass(frozen=True)
class Memory:
    """Bytes of one process in plain data parallelism, by part."""

    weights: int
    gradients: int
    optimizer: int
    casts: int
    activations: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.weights + self.gradients + self.optimizer + self.casts + self.activations


def estimate_memory(config: RunConfig) -> Memory:
    """fp32 weights, gradients and momenta, and a bf16 copy of the weights where products are in bf16.

    Activations are about 34 values of the hidden width and 6 of the expert width for each block and token, of the
    phase with the most tokens at once.
    """
    model, total = config.model, count_parameters(config.model)
    muon = _matrix_parameters(model)
    value_bytes = 2 if config.train.precision == "bf16" else 4
    tokens = max(
        min(phase.micro_batch_size, phase.global_batch_size // config.num_processes) * phase.sequence_length
        for phase in config.phases
    )
    values = model.num_hidden_layers * (34 * model.hidden_size + 6 * model.moe_intermediate_size)
    return Memory(
        weights=4 * total.total,
        gradients=4 * total.total,
        optimizer=4 * muon + 8 * (total.total - muon),
        casts=2 * total.total if config.train.precision == "bf16" else 0,
        activations=tokens * values * value_bytes,
    )


@dataclass(frozen=True)
class Cluster:
    """What a run is to be planned on; the defaults are MI300X at the bf16 rate AMD measures for large products."""

    nodes: int = 128
    gpus_per_node: int = 8
    flops_per_second: float = 708e12
    memory_bytes: int = 192 * 10**9
    utilisation: float = 0.3
    watts_per_gpu: float = 750.0


def plan(config: RunConfig, cluster: Cluster | None = None) -> dict[str, object]:
    """All figures of a config in one JSON-ready dictionary; units are in the names.

    Without a cluster it is planned on MI300X, as many as the config has processes.
    """
    cluster = cluster or Cluster(nodes=config.parallel.nodes, gpus_per_node=config.parallel.processes_per_node)
    parameters, memory = count_parameters(config.model), estimate_memory(config)
    rate = cluster.nodes * cluster.gpus_per_node * cluster.flops_per_second * cluster.utilisation
    phases = [_plan_phase(config, phase, rate) for phase in config.phases]
    tokens, seconds = sum(phase.tokens for phase in config.phases), sum(phase["seconds"] for phase in phases)
    return {
        "parameters": {**asdict(parameters), "total": parameters.total},
        "memory_bytes_per_process": {**asdict(memory), "total": memory.total},
        "fits": memory.total <= cluster.memory_bytes,
        "steps": config.train.steps,
        "tokens": tokens,
        "tokens_per_step": config.tokens_per_step,
        "flops_per_token": phases[0]["flops_per_token"],
        "flops": sum(phase["flops_per_token"] * phase["tokens"] for phase in phases),
        "seconds": seconds,
        "days": seconds / 86_400,
        "seconds_per_step": seconds / config.train.steps,
        "tokens_per_second": tokens / seconds,
        "energy_joules": seconds * cluster.nodes * cluster.gpus_per_node * cluster.watts_per_gpu,
        "phases": phases,
        "cluster": asdict(cluster),
    }


def _plan_phase(config: RunConfig, phase: Phase, flops_per_second: float) -> dict[str, Any]:
    flops = training_flops_per_token(config.model, phase.sequence_length)
    return {
        "name": phase.name,
        "steps": phase.steps,
        "tokens": phase.tokens,
        "sequence_length": phase.sequence_length,
        "flops_per_token": flops,
        "seconds": phase.tokens * flops / flops_per_second,
    }


def _matrix_parameters(model: ModelConfig) -> int:
    """Parameters that Muon moves, with one momentum where AdamW has two."""
    D, L, R = model.hidden_size, model.num_hidden_layers, model.router_hidden_size
    width_q, width_k = model.num_attention_heads * model.head_dim, model.num_key_value_heads * model.head_dim
    classes = model.num_experts + 1
    router = D * classes if model.router == "linear" else D * R + 2 * R * R + R * classes
    experts = 3 * D * model.moe_intermediate_size * model.num_experts
    return L * (D * (width_q + 2 * width_k) + width_q * D + router + experts)


def _kinds(model: ModelConfig) -> tuple[str, ...]:
    return model.layer_types or ("full",) * model.num_hidden_layers


def _mean_context(model: ModelConfig, kind: str, length: int) -> float:
    window = model.sliding_window if kind == "sliding" and model.sliding_window else length
    window = min(window, length)
    return (window * (window + 1) / 2 + (length - window) * window) / length
