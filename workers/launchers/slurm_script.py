"""The batch script of a run: one job of as many nodes as its config asks for, torchrun started on each."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workers.launchers.command import command
from workers.launchers.place import Place

# The script runs on the first node. Jobs that share it must not meet at the same port.
_SCRIPT = """\
#!/bin/sh
{options}

echo "Slurm job $SLURM_JOB_ID runs on $SLURM_JOB_NODELIST."
trap : TERM
export PET_RDZV_ENDPOINT="$(hostname):$((29400 + SLURM_JOB_ID % 1000))"
srun {srun_options} sh -c {on_each_node}
code=$?
echo $code > {exit_file}.new && mv {exit_file}.new {exit_file}
exit $code
"""
# torchrun takes from PET_ variables what only the node itself knows.
_ON_EACH_NODE = """\
threads=$(($(nproc) / {processes}))
export OMP_NUM_THREADS=${{OMP_NUM_THREADS:-$((threads > 0 ? threads : 1))}}
export PET_NODE_RANK=$SLURM_NODEID PET_RDZV_CONF=is_host=$((SLURM_NODEID == 0))
exec {command}"""


def batch_script(
    place: Place,
    config: Mapping[str, Any],
    config_file: Path,
    *,
    name: str,
    options: Sequence[str],
    flags: Sequence[str],
) -> str:
    """The text that sbatch is given; `options` are the operator's, ours come after them, `flags` are the trainer's."""
    parallel = config["parallel"]
    ours = [
        f"--job-name={name}", f"--nodes={parallel['nodes']}", "--ntasks-per-node=1", "--no-requeue",
        f"--output={_literal(place.launcher_log)}", "--open-mode=append",
    ]  # fmt: skip
    # One node that fails ends the others, which would wait for it.
    srun = [
        "--kill-on-bad-exit=1", "--cpu-bind=none", "--mpi=none", "--quiet", "--open-mode=append",
        f"--output={_literal(place.log.parent)}/{place.log.name.replace('node-0000', 'node-%4n')}",
    ]  # fmt: skip
    words = [*command(place, config, config_file, first_node=None), *flags]
    on_each_node = _ON_EACH_NODE.format(processes=parallel["processes_per_node"], command=shlex.join(words))
    return _SCRIPT.format(
        options="\n".join(f"#SBATCH {shlex.quote(word)}" for word in [*options, *ours]),
        srun_options=shlex.join(srun),
        on_each_node=shlex.quote(on_each_node),
        exit_file=shlex.quote(str(place.exit_file)),
    )


def _literal(path: Path) -> str:
    """A path in which Slurm finds nothing to replace."""
    return str(path).replace("%", "%%")
