"""Write a checkpoint as a folder that transformers' ZayaForCausalLM loads."""

import argparse
from pathlib import Path

from zaya_model.commands.checkpoint_flags import add_checkpoint_arguments, read_checkpoint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_checkpoint_arguments(parser)
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="folder to write")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    import torch

    from zaya_model.checkpoint.interop import save_hf

    model, _, step = read_checkpoint(arguments)
    save_hf(model, arguments.folder, dtype=getattr(torch, arguments.dtype))
    return {"step": step, "folder": str(arguments.folder)}
