"""Write a checkpoint as a folder that transformers' ZayaForCausalLM loads."""

import argparse
import shutil
from pathlib import Path

from zaya_model.commands.checkpoint_flags import add_checkpoint_arguments, read_checkpoint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_checkpoint_arguments(parser)
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="folder to write")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    import torch

    from zaya_model.checkpoint.interop import save_hf
    from zaya_model.data.prepare import tokenizer_of
    from zaya_model.data.tokenizer import load_tokenizer

    model, config, step = read_checkpoint(arguments)
    name = tokenizer_of(config.data.path, config.data.tokenizer)
    dtype, end = getattr(torch, arguments.dtype), load_tokenizer(name).end
    save_hf(model, arguments.folder, dtype=dtype, anchor_skip=True, eos_token_id=end)
    if name != "bytes":
        shutil.copyfile(name, arguments.folder / "tokenizer.json")
    return {"step": step, "folder": str(arguments.folder), "tokenizer": name, "eos_token_id": end}
