"""A cluster's rates, and the seconds of one step on it, by part."""

from dataclasses import dataclass

from zaya_model.config import Phase, RunConfig
from zaya_model.plan.counts import count_parameters, muon_matrices, training_flops_per_token
from zaya_model.plan.memory import estimate_memory, optimizer_shards

# Read weight, gradient and momenta, write weight and momenta back: seven fp32 values at most.
_OPTIMIZER_BYTES = 28


@dataclass(frozen=True)
class Cluster:
    """What a run is to be planned on; the defaults are what was measured in public on MI300X and Pollara 400.

    Products: AMD's max-achievable bf16 rate. Memory: the rate at which HBM saturates (arXiv 2511.17127). Links: bus
    bandwidth of RCCL's all-reduce over the eight GPUs of a node. NIC: 400 Gb/s, one for each GPU on a rail of its own.
    `utilisation` is the share of the products' rate that forward and backward reach; ZAYA1's public 16.8 M tokens
    in about 2.5 s on 1,024 GPUs imply 0.1.
    """

    nodes: int = 128
    gpus_per_node: int = 8
    flops_per_second: float = 708e12
    memory_bytes: int = 192 * 10**9
    memory_bytes_per_second: float = 4.33e12
    link_bytes_per_second: float = 315e9
    nic_bytes_per_second: float = 50e9
    host_bytes_per_second: float = 50e9
    utilisation: float = 0.1
    watts_per_gpu: float = 750.0

    @property
    def gpus(self) -> int:
        """All of them."""
        return self.nodes * self.gpus_per_node

    def all_reduce_seconds(self, num_bytes: float) -> float:
        """Sum a message of all GPUs: scattered over the links of each node, each part along its own rail, gathered."""
        within = 2 * (self.gpus_per_node - 1) / self.gpus_per_node * num_bytes / self.link_bytes_per_second
        share = num_bytes / self.gpus_per_node
        return within + 2 * (self.nodes - 1) / self.nodes * share / self.nic_bytes_per_second


@dataclass(frozen=True)
class StepTime:
    """Seconds of one optimiser step by part, one after another as the trainer does them."""

    compute: float
    gradients: float
    optimizer: float
    checkpoint: float

    @property
    def total(self) -> float:
        """All of them."""
        return self.compute + self.gradients + self.optimizer + self.checkpoint


def estimate_step(config: RunConfig, phase: Phase, cluster: Cluster) -> StepTime:
    """Forward and backward, gradients in fp32 over the network, optimisers, and a checkpoint's copy, spread."""
    total = count_parameters(config.model).total
    flops = phase.tokens_per_step * training_flops_per_token(config.model, phase.sequence_length)
    muon_flops = sum(matrices.orthogonalising_flops() for matrices in muon_matrices(config.model))
    passes = _OPTIMIZER_BYTES * total / cluster.memory_bytes_per_second
    memory, shards = estimate_memory(config), optimizer_shards(config)
    saved = (memory.weights + memory.optimizer * shards) / cluster.gpus / cluster.host_bytes_per_second
    return StepTime(
        compute=flops / (cluster.gpus * cluster.flops_per_second * cluster.utilisation),
        gradients=cluster.all_reduce_seconds(4 * total),
        optimizer=(muon_flops / cluster.flops_per_second + passes) / shards,
        checkpoint=saved / config.checkpoint.every_steps if config.checkpoint.every_steps else 0.0,
    )
