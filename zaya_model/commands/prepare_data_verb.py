"""Turn text, JSON lines or parquet into a folder of tokens."""

import argparse
from dataclasses import asdict
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sources", metavar="SOURCE", nargs="+", type=Path, help=".txt, .jsonl or .parquet")
    parser.add_argument("--out", type=Path, required=True, help="folder to write")
    parser.add_argument("--tokenizer", default="bytes", help="`bytes`, or a tokenizer.json")
    parser.add_argument("--field", default="text", help="field or column that holds the text")


def run(arguments: argparse.Namespace) -> dict[str, object]:
    from zaya_model.data.prepare import prepare

    return asdict(prepare(arguments.sources, arguments.out, tokenizer=arguments.tokenizer, field=arguments.field))
