"""What a config needs on a cluster: parameters, memory, seconds, energy; computed without torch."""

from dataclasses import asdict

from zaya_model.config import RunConfig
from zaya_model.plan.cluster import Cluster, StepTime, estimate_step
from zaya_model.plan.counts import (
    count_parameters,
    forward_flops_per_token,
    muon_matrices,
    training_flops_per_token,
)
from zaya_model.plan.memory import estimate_memory

__all__ = [
    "Cluster", "StepTime", "count_parameters", "estimate_memory", "estimate_step", "forward_flops_per_token",
    "muon_matrices", "plan", "training_flops_per_token",
]  # fmt: skip


def plan(config: RunConfig, cluster: Cluster | None = None) -> dict[str, object]:
    """All figures of a config in one JSON-ready dictionary; units are in the names.

    Without a cluster it is planned on MI300X, as many as the config has processes.
    """
    cluster = cluster or Cluster(nodes=config.parallel.nodes, gpus_per_node=config.parallel.processes_per_node)
    parameters, memory = count_parameters(config.model), estimate_memory(config)
    steps = [estimate_step(config, phase, cluster) for phase in config.phases]
    tokens = sum(phase.tokens for phase in config.phases)
    seconds = sum(phase.steps * step.total for phase, step in zip(config.phases, steps, strict=True))
    flops = [training_flops_per_token(config.model, phase.sequence_length) for phase in config.phases]
    return {
        "parameters": {**asdict(parameters), "total": parameters.total},
        "memory_bytes_per_process": {**asdict(memory), "total": memory.total},
        "fits": memory.total <= cluster.memory_bytes,
        "steps": config.train.steps,
        "tokens": tokens,
        "tokens_per_step": config.tokens_per_step,
        "flops_per_token": flops[0],
        "flops": sum(each * phase.tokens for each, phase in zip(flops, config.phases, strict=True)),
        "seconds": seconds,
        "days": seconds / 86_400,
        "seconds_per_step": {**asdict(steps[0]), "total": steps[0].total},
        "tokens_per_second": tokens / seconds,
        "energy_joules": seconds * cluster.gpus * cluster.watts_per_gpu,
        "phases": [
            {
                "name": phase.name, "steps": phase.steps, "tokens": phase.tokens,
                "sequence_length": phase.sequence_length, "flops_per_token": each,
                "seconds_per_step": {**asdict(step), "total": step.total}, "seconds": phase.steps * step.total,
            }
            for phase, step, each in zip(config.phases, steps, flops, strict=True)
        ],
        "cluster": asdict(cluster),
    }  # fmt: skip
