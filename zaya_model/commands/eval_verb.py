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
    from zaya_model.data.prepare import open_data
    from zaya_model.errors import DataError

    model, config, step = read_checkpoint(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        data = open_data(arguments.data or config.data.path, config.data.tokenizer, Path(scratch))
        length = config.data.sequence_length
        if arguments.data:
            split = Split(data.tokens, length)
        else:
            split = split_data(data, sequence_length=length, validation_fraction=config.data.validation_fraction)[1]
        if not split.num_windows:
            raise DataError(f"There are too few tokens for one sequence of {length:,}: give more with --data.")
        size = config.train.micro_batch_size
        windows = torch.arange(min(split.num_windows, arguments.batches * size))
        total = 0.0
        with torch.no_grad():
            for part in windows.split(size):
                total += model.loss(*split.read(part.numpy())).item() * len(part)
    loss = total / len(windows)
    return {
        "step": step,
        "tokens": len(windows) * length,
        "loss": loss,
        "perplexity": math.exp(min(loss, 700.0)),
        "bits_per_byte": loss / math.log(2) / data.bytes_per_token,
    }
