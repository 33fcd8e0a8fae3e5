"""Turn text, JSON lines or parquet into a folder of tokens, or check such a folder."""

import argparse
import os
from dataclasses import asdict
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "sources",
        metavar="SOURCE",
        nargs="*",
        type=Path,
        help=".txt .jsonl .parquet, also with .gz, or folders of them",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder to write, or to check with --verify")
    tokenizers = parser.add_mutually_exclusive_group()
    tokenizers.add_argument("--tokenizer", default="bytes", help="`bytes`, or a tokenizer.json")
    tokenizers.add_argument("--train-bpe", type=int, metavar="SIZE", help="train a byte-level BPE on the sources first")
    parser.add_argument("--field", default="text", help="field or column that holds the text")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="processes that encode")
    parser.add_argument("--verify", action="store_true", help="read a prepared folder back and compare its checksums")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    from tqdm import tqdm

    from zaya_model.data.prepare import prepare
    from zaya_model.data.shards import TokenFolder
    from zaya_model.errors import DataError

    if arguments.verify:
        folder = TokenFolder(arguments.out)
        folder.verify()
        return {"ok": True, **_summary(asdict(folder.manifest))}
    if not arguments.sources:
        raise DataError("Name at least one file or folder to read.")
    with tqdm(unit="char", unit_scale=True, desc="read", disable=arguments.json or None) as bar:
        manifest = prepare(
            arguments.sources, arguments.out, tokenizer=arguments.tokenizer, field=arguments.field,
            processes=max(1, arguments.processes), train_vocab=arguments.train_bpe, progress=bar.update,
        )  # fmt: skip
    return {"folder": str(arguments.out), **_summary(asdict(manifest))}


def _summary(manifest: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in manifest.items() if name not in ("shards", "source")}
