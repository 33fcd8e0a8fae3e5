"""Train a model into a run folder."""

import argparse
import os
from contextlib import suppress
from pathlib import Path

from zaya_model.commands.config_flags import add_config_arguments, read_config
from zaya_model.config import RunConfig
from zaya_model.errors import ZayaError
from zaya_model.journal import Journal, journal_path
from zaya_model.presets import to_toml
from zaya_model.train.attempt import next_attempt


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config_arguments(parser)
    parser.add_argument("--run-dir", type=Path, required=True, help="folder of the run: journal, checkpoints, config")
    parser.add_argument(
        "--resume", nargs="?", const="latest", metavar="STEP", help="go on from the newest whole checkpoint, or STEP"
    )
    parser.add_argument(
        "--from", dest="origin", type=Path, metavar="FOLDER",
        help="begin with this checkpoint of another run, its step included, where this run has none of its own",
    )  # fmt: skip
    parser.add_argument("--attempt", type=int, help="number of this start; the next free one by default")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    try:
        config = read_config(arguments)
        if arguments.resume not in (None, "latest") and not arguments.resume.isdecimal():
            raise ZayaError(f"--resume takes a step number or nothing, not {arguments.resume!r}.")
        if is_first := int(os.environ.get("RANK", 0)) == 0:
            write_config(arguments.run_dir, config)
            if arguments.origin:
                take_over(arguments.origin, arguments.run_dir)
    except ZayaError as error:
        journal_failure(arguments, error)
        raise
    if is_first and arguments.attempt is None:
        # Who numbers the attempts removes it before a start, and may have put it back by now.
        (arguments.run_dir / "stop").unlink(missing_ok=True)

    from zaya_model.train.loop import train

    resume = arguments.resume or ("latest" if arguments.origin else None)
    ended = train(config, arguments.run_dir, resume=resume, attempt=arguments.attempt)
    return {"ended": ended, "run_dir": str(arguments.run_dir)}


def take_over(origin: Path, run_dir: Path) -> None:
    """Begin with another run's checkpoint, leaving out the data that run left out. Raises ZayaError."""
    from zaya_model.checkpoint.adopt import adopt
    from zaya_model.train.skips import copy_skips

    step = adopt(origin, run_dir)
    copy_skips(origin.parents[1], run_dir, up_to=step)


def write_config(run_dir: Path, config: RunConfig) -> None:
    """Put config.toml into the run folder, whole or not at all. Raises ZayaError."""
    try:
        run_dir.mkdir(parents=True, exist_ok=True)
        temporary = run_dir / "config.toml.new"
        temporary.write_text(to_toml(config), encoding="utf-8")
        temporary.replace(run_dir / "config.toml")
    except OSError as error:
        raise ZayaError(f"The run folder {run_dir} cannot be written: {error.strerror}.") from error


def journal_failure(arguments: argparse.Namespace, error: ZayaError) -> None:
    """Say in the journal that the run could not even begin, where there is a folder to say it in."""
    if int(os.environ.get("RANK", 0)) == 0 and arguments.run_dir.is_dir():
        number = arguments.attempt or next_attempt(arguments.run_dir)
        with suppress(OSError), Journal(journal_path(arguments.run_dir, number), number) as journal:
            journal.event(0, "failed", str(error))
