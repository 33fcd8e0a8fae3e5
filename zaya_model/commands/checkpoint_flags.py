"""The flags that choose a checkpoint of a run, and how its model is read."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from zaya_model.config import RunConfig
from zaya_model.errors import CheckpointError, ZayaError
from zaya_model.presets import build

if TYPE_CHECKING:
    from zaya_model.model import Model


def add_checkpoint_arguments(parser: argparse.ArgumentParser) -> None:
    """RUN_DIR and --step."""
    parser.add_argument("run_dir", metavar="RUN_DIR", type=Path, help="folder of the run")
    parser.add_argument("--step", type=int, help="checkpoint to take; the newest whole one by default")


def read_checkpoint(arguments: argparse.Namespace) -> tuple["Model", RunConfig, int]:
    """The model of a checkpoint, its config and its step. Raises CheckpointError."""
    from zaya_model.checkpoint.restore import find_checkpoint, read_tensors
    from zaya_model.model import Model
    from zaya_model.train.state import below

    found = find_checkpoint(arguments.run_dir, arguments.step)
    if found.manifest is None or found.folder is None:
        why = " ".join(refused.reason for refused in found.refused) or "none was ever written."
        raise CheckpointError(f"{arguments.run_dir} has no whole checkpoint: {why}")
    config = build(found.manifest.config)
    tensors = read_tensors(found.folder, found.manifest)
    model = Model(config.model_at(found.manifest.step))
    try:
        model.load_state_dict(below(tensors, "model/"))
    except RuntimeError as error:
        raise ZayaError(f"The checkpoint does not fit its own config: {error}") from error
    return model.eval(), config, found.manifest.step
