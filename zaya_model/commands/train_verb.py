"""Train a model into a run folder."""

import argparse
from pathlib import Path

from zaya_model.commands.config_flags import add_config_arguments, read_config
from zaya_model.errors import ZayaError
from zaya_model.presets import to_toml


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_arguments(parser)
    parser.add_argument("--run-dir", type=Path, required=True, help="folder of the run: journal, checkpoints, config")
    parser.add_argument(
        "--resume", nargs="?", const="latest", metavar="STEP", help="go on from the newest whole checkpoint, or STEP"
    )
    parser.add_argument("--attempt", type=int, help="number of this start; the next free one by default")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    config = read_config(arguments)
    if arguments.resume not in (None, "latest") and not arguments.resume.isdecimal():
        raise ZayaError(f"--resume takes a step number or nothing, not {arguments.resume!r}.")
    try:
        arguments.run_dir.mkdir(parents=True, exist_ok=True)
        written = arguments.run_dir / "config.toml"
        if not written.exists() or written.resolve() != Path(arguments.config).resolve():
            written.write_text(to_toml(config))
    except OSError as error:
        raise ZayaError(f"The run folder {arguments.run_dir} cannot be written: {error.strerror}.") from error

    from zaya_model.train.loop import train

    ended = train(config, arguments.run_dir, resume=arguments.resume, attempt=arguments.attempt)
    return {"ended": ended, "run_dir": str(arguments.run_dir)}
