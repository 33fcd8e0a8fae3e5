"""Bytes of one process, by part."""

from dataclasses import dataclass

from zaya_model.config import RunConfig
from zaya_model.plan.counts import count_parameters, muon_matrices


@dataclass(frozen=True)
class Memory:
    """Bytes of one process, by part."""

    weights: int
    gradients: int
    optimizer: int
    casts: int
    activations: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.weights + self.gradients + self.optimizer + self.casts + self.activations


def optimizer_shards(config: RunConfig) -> int:
    """Processes that share one copy of the optimisers' state."""
    return 1 if config.parallel.sharding == "none" else config.num_processes


def estimate_memory(config: RunConfig) -> Memory:
    """fp32 weights, gradients and momenta, and a bf16 copy of the weights where products are in bf16.

    Under ZeRO-1 each process keeps an equal part of the momenta; under FSDP also whole experts alone, as many as the
    process with most of them, and for a moment those of two blocks.
    Activations are about 34 values of the hidden width and 6 of the expert width for each block and token, of the
    phase with the most tokens at once; with activation checkpointing those of one block, and what goes into each.
    """
    model, counted = config.model, count_parameters(config.model)
    total = held = counted.total
    if config.parallel.sharding == "fsdp":
        most = -(-model.num_experts // config.num_processes) / model.num_experts
        held -= int(counted.experts * (1 - min(1.0, most + 2 / model.num_hidden_layers)))
    muon = sum(matrices.parameters for matrices in muon_matrices(model))
    value_bytes = 2 if config.train.precision == "bf16" else 4
    tokens = max(
        min(phase.micro_batch_size, -(-phase.global_batch_size * config.parallel.context // config.num_processes))
        * -(-phase.sequence_length // config.parallel.context)
        for phase in config.phases
    )
    block = 34 * model.hidden_size + 6 * model.moe_intermediate_size
    values = model.num_hidden_layers * block
    if config.train.activation_checkpointing:
        values = block + model.num_hidden_layers * (model.hidden_size + model.router_hidden_size)
    return Memory(
        weights=4 * held,
        gradients=4 * held,
        optimizer=(4 * muon + 8 * (total - muon)) // optimizer_shards(config),
        casts=2 * total if config.train.precision == "bf16" else 0,
        activations=tokens * values * value_bytes,
    )
