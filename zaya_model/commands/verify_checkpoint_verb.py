"""Say which checkpoints of a run are whole, and what is wrong with the others."""

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_dir", metavar="RUN_DIR", type=Path, help="folder of the run")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    from zaya_model.checkpoint.manifest import list_checkpoints, verify
    from zaya_model.errors import CheckpointError

    states: dict[str, str] = {}
    for _, folder in list_checkpoints(arguments.run_dir):
        try:
            manifest = verify(folder)
            states[folder.name] = f"whole, {manifest.bytes:,} bytes"
        except CheckpointError as error:
            states[folder.name] = str(error)
    if not states:
        raise CheckpointError(f"{arguments.run_dir} has no checkpoints.")
    return {"ok": all(text.startswith("whole") for text in states.values()), "checkpoints": states}
