"""Held-out loss of a checkpoint, on the run's data or on a text."""

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from zaya_model.commands.checkpoint_flags import add_checkpoint_arguments, read_checkpoint
from zaya_model.config import RunConfig
from zaya_model.errors import ZayaError

if TYPE_CHECKING:
    from zaya_model.model import Model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_checkpoint_arguments(parser)
    parser.add_argument("--data", help="a text or a prepared folder; the run's held-out part by default")
    parser.add_argument(
        "--tasks", help="tasks of lm-evaluation-harness instead, names or YAML files, with commas; needs lm_eval"
    )
    parser.add_argument("--batches", type=int, default=64, help="batches to read at most")


def run_tasks(model: "Model", config: RunConfig, step: int, tasks: list[str]) -> dict[str, object]:
    """Scores of the harness's tasks. Raises ZayaError where it is not installed or does not know a task."""
    from zaya_model.data.prepare import tokenizer_of
    from zaya_model.data.tokenizer import load_tokenizer
    from zaya_model.train.harness import Harness

    try:
        import lm_eval
        from lm_eval.api.model import LM
    except ImportError as error:
        raise ZayaError("--tasks needs lm-evaluation-harness: pip install lm_eval.") from error

    class Answers(Harness, LM):
        """The harness's own class, answered by ours."""

        def __init__(self) -> None:
            LM.__init__(self)
            tokenizer = load_tokenizer(tokenizer_of(config.data.path, config.data.tokenizer))
            Harness.__init__(self, model, tokenizer, length=config.phase_at(max(0, step - 1)).sequence_length)

    try:
        found = lm_eval.simple_evaluate(model=Answers(), tasks=tasks)
    except (KeyError, ValueError, OSError) as error:
        raise ZayaError(f"The harness cannot run {', '.join(tasks)}: {error}") from error
    return {"tasks": found["results"]}


def run(arguments: argparse.Namespace) -> dict[str, object]:
    import tempfile

    from zaya_model.data.loader import Split, split_data
    from zaya_model.data.prepare import open_data, tokenizer_of
    from zaya_model.errors import DataError
    from zaya_model.parallel.mesh import alone
    from zaya_model.train.evaluate import mean_loss

    model, config, step = read_checkpoint(arguments)
    if arguments.tasks:
        return {"step": step, **run_tasks(model, config, step, arguments.tasks.split(","))}
    own, length = config.data, config.phase_at(max(0, step - 1)).sequence_length
    with tempfile.TemporaryDirectory() as scratch:
        data = open_data(arguments.data or own.path, tokenizer_of(own.path, own.tokenizer), Path(scratch))
        if arguments.data:
            split = Split(data.tokens, length)
        else:
            split = split_data(data, sequence_length=length, validation_fraction=own.validation_fraction)[1]
        if not split.num_windows:
            raise DataError(f"There are too few tokens for one sequence of {length:,}: give more with --data.")
        size = config.train.micro_batch_size
        world = alone()
        loss = mean_loss(model, split, world, batches=arguments.batches, batch_size=size, precision="fp32")
    return {
        "step": step,
        "tokens": min(arguments.batches * size, split.num_windows) * length,
        "loss": loss,
        "perplexity": math.exp(min(loss, 700.0)),
        "bits_per_byte": loss / math.log(2) / data.bytes_per_token,
    }
