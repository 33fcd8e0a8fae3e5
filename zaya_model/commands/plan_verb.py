"""Say what a config needs: parameters, memory, FLOPs, hours and energy on a cluster."""

import argparse

from zaya_model.commands.config_flags import add_config_arguments, read_config
from zaya_model.plan import Cluster, plan


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_arguments(parser)
    default = Cluster()
    parser.add_argument("--nodes", type=int, help="nodes; the config's by default")
    parser.add_argument("--gpus-per-node", type=int, help="GPUs of a node; the config's processes by default")
    parser.add_argument("--tflops", type=float, default=default.flops_per_second / 1e12, help="measured rate of a GPU")
    parser.add_argument("--hbm-gb", type=float, default=default.memory_bytes / 1e9, help="memory of a GPU")
    parser.add_argument("--utilisation", type=float, default=default.utilisation, help="share of that rate in training")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    config = read_config(arguments)
    cluster = Cluster(
        nodes=arguments.nodes or config.parallel.nodes,
        gpus_per_node=arguments.gpus_per_node or config.parallel.processes_per_node,
        flops_per_second=arguments.tflops * 1e12,
        memory_bytes=int(arguments.hbm_gb * 1e9),
        utilisation=arguments.utilisation,
    )
    return plan(config, cluster)
