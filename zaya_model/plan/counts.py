"""Parameters of a model by part, its matrices, and the FLOPs of a token.

FLOPs count a multiply and an add as two. One token's forward pass is counted; training takes three times that
(the backward pass has twice the products of the forward pass).
"""

from dataclasses import dataclass

from zaya_model.config import ModelConfig


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
class Matrices:
    """So many matrices of one shape in the whole model, each orthogonalised by Muon."""

    count: int
    rows: int
    columns: int

    @property
    def parameters(self) -> int:
        """Values of all of them."""
        return self.count * self.rows * self.columns

    def orthogonalising_flops(self, iterations: int = 5) -> float:
        """Products of the Newton-Schulz iteration: two with the wide side, one of the narrow square."""
        narrow, wide = sorted((self.rows, self.columns))
        return iterations * self.count * (4.0 * narrow**2 * wide + 2.0 * narrow**3)


def muon_matrices(model: ModelConfig) -> list[Matrices]:
    """What Muon moves, by shape; gate and up of an expert are a matrix each."""
    D, L, R, F = model.hidden_size, model.num_hidden_layers, model.router_hidden_size, model.moe_intermediate_size
    width_q, width_k = model.num_attention_heads * model.head_dim, model.num_key_value_heads * model.head_dim
    classes = model.num_experts + 1
    if model.router == "linear":
        router = [Matrices(L, classes, D)]
    else:
        router = [Matrices(L, R, D), Matrices(2 * L, R, R), Matrices(L, classes, R)]
    attention = [Matrices(2 * L, width_q, D), Matrices(L, width_k, D), Matrices(2 * L, width_k // 2, D)]
    return [*attention, *router, Matrices(3 * L * model.num_experts, F, D)]


def _kinds(model: ModelConfig) -> tuple[str, ...]:
    return model.layer_types or ("full",) * model.num_hidden_layers


def _mean_context(model: ModelConfig, kind: str, length: int) -> float:
    window = model.sliding_window if kind == "sliding" and model.sliding_window else length
    window = min(window, length)
    return (window * (window + 1) / 2 + (length - window) * window) / length
