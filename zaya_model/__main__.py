"""python -m zaya_model VERB: finds the verb, parses its flags, runs it."""

import argparse
import importlib
import json
import os
import sys

from zaya_model import __version__
from zaya_model.errors import ZayaError

VERBS = {
    "train": "train a model, alone or under torchrun",
    "plan": "parameters, memory, FLOPs and hours of a config",
    "bench": "what this machine can do",
    "eval": "held-out loss of a checkpoint",
    "generate": "text from a checkpoint",
    "export": "a checkpoint as a Hugging Face folder",
    "import": "a Hugging Face folder as the first checkpoint of a run",
    "prepare-data": "text, JSON lines or parquet to tokens",
    "verify-checkpoint": "which checkpoints of a run are whole",
}


def main(argv: list[str] | None = None) -> int:
    """Run one verb; returns the exit status. What is wrong goes to standard error, one sentence a line."""
    parser = argparse.ArgumentParser(prog="python -m zaya_model", description="Train models of the ZAYA1 family.")
    parser.add_argument("--version", action="version", version=__version__)
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, summary in VERBS.items():
        verb = verbs.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        verb.add_argument("--json", action="store_true", help="print the result as JSON")
        _module(name).add_arguments(verb)
    arguments = parser.parse_args(argv)
    # Threads that spin while they wait make two trainers on one machine twenty times slower; must be set before torch.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        result = _module(arguments.verb).run(arguments)
    except ZayaError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    print(json.dumps(result) if arguments.json else _lines(result))
    return 1 if isinstance(result, dict) and result.get("ok") is False else 0


def _module(verb: str):
    return importlib.import_module(f"zaya_model.commands.{verb.replace('-', '_')}_verb")


def _lines(result: object) -> str:
    """A dictionary as aligned lines, nested ones indented; anything else as it is."""
    if not isinstance(result, dict):
        return str(result)
    lines = []
    for key, value in result.items():
        if isinstance(value, dict):
            lines += [f"{key}", *(f"  {line}" for line in _lines(value).splitlines())]
        elif isinstance(value, list):
            lines += [f"{key}", *(f"  {item}" for item in value)]
        else:
            lines.append(f"{key:<24} {value:,}" if isinstance(value, int) else f"{key:<24} {value}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
