"""The command one would type by hand, and what it finds: its config, its flags, its environment."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers.launchers.place import Place
from zaya_model.presets import build, to_toml

if TYPE_CHECKING:
    from webapp.runs.models import Placement

_RENDEZVOUS_PORT = 29_400
_NOT_FOR_TRAINERS = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY")


def command(place: Place, config: Mapping[str, Any], config_file: Path, *, first_node: str | None) -> list[str]:
    """The command one would type by hand; torchrun only where it has several processes to start.

    Without `first_node` the environment of each node says where they meet and which it is.
    """
    nodes, processes = config["parallel"]["nodes"], config["parallel"]["processes_per_node"]
    launcher = [sys.executable]
    if nodes * processes > 1:
        launcher += ["-m", "torch.distributed.run", f"--nproc-per-node={processes}", f"--nnodes={nodes}"]
        launcher += ["--standalone"] if nodes == 1 else _meeting(place, first_node)
    verb = ["-m", "zaya_model", "train", str(config_file), "--run-dir", str(place.run_dir)]
    return [*launcher, *verb, "--attempt", str(place.attempt)]


def _meeting(place: Place, first_node: str | None) -> list[str]:
    flags = ["--rdzv-backend=c10d", f"--rdzv-id={place.run_dir.name}-{place.attempt}"]
    if first_node is None:
        return flags
    is_first = int(place.node_rank == 0)
    where = [f"--rdzv-endpoint={first_node}:{_RENDEZVOUS_PORT}", f"--rdzv-conf=is_host={is_first}"]
    return [f"--node-rank={place.node_rank}", *flags, *where]


def beginning(placement: "Placement", runs_dir: Path) -> list[str]:
    """The flags that say from which checkpoint to go on; none for a first attempt, which has nothing to go on from."""
    attempt, run = placement.attempt, placement.attempt.run
    flags = []
    if attempt.resume_step is not None:
        flags += ["--resume", str(attempt.resume_step)]
    elif attempt.number > 1:
        flags += ["--resume"]
    if run.parent_id is not None:
        flags += ["--from", str(runs_dir / str(run.parent_id) / "checkpoints" / f"step-{run.parent_step:08d}")]
    return flags


def make_folder(place: Place, config: Mapping[str, Any]) -> Path:
    """Make the run's folder ready for a start; returns its config file, which may be read by several nodes.

    Raises OSError, and ZayaError for a config that cannot be used.
    """
    for folder in (place.record, place.log):
        folder.parent.mkdir(parents=True, exist_ok=True)
    place.stop_file.unlink(missing_ok=True)
    file = place.run_dir / "config.toml"
    new = file.with_suffix(f".{place.node_rank}.new")
    new.write_text(to_toml(build(config)))
    return new.replace(file)


def environment() -> dict[str, str]:
    """Our own environment without what only servers may know."""
    ours = {name: value for name, value in os.environ.items() if name not in _NOT_FOR_TRAINERS}
    return {**ours, "PYTHONUNBUFFERED": "1"}
