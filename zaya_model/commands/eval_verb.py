"""Held-out loss of a checkpoint, on the run's data or on a text."""

import argparse
import math
from pathlib import Path

from zaya_model.commands.checkpoint_flags import add_checkpoint_arguments, read_checkpoint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_checkpoint_arguments(parser)
    parser.add_argument("--data", help="a text or a prepared folder; the run's held-out part by default")
    parser.add_argument("--batches", type=int, default=64, help="batches to read at most")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    import tempfile

    import torch

    from zaya_model.data.loader import Split, split_data
    from zaya_model.data.prepare import open_data, tokenizer_of
    from zaya_model.errors import DataError
    from zaya_model.parallel.mesh import World
    from zaya_model.train.evaluate import mean_loss

    model, config, step = read_checkpoint(arguments)
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
        world = World(0, 1, 0, torch.device("cpu"))
        loss = mean_loss(model, split, world, batches=arguments.batches, batch_size=size, precision="fp32")
    return {
        "step": step,
        "tokens": min(arguments.batches * size, split.num_windows) * length,
        "loss": loss,
        "perplexity": math.exp(min(loss, 700.0)),
        "bits_per_byte": loss / math.log(2) / data.bytes_per_token,
    }
