"""python -m bench [NAME …]: measure, print a table, write bench/results.json."""

import argparse
import importlib
import json
import pkgutil
import sys
from pathlib import Path

import bench

RESULTS = Path(__file__).parent / "results.json"
LONG = {"scaling"}  # ten minutes and more: measured by name alone
FIELDS = ("name", "value", "unit", "peer", "peer_value", "ratio")


def main() -> int:
    """Run the named benchmarks, or all; one that cannot run is a row that says why."""
    names = [module.name for module in pkgutil.iter_modules(bench.__path__) if not module.name.startswith("_")]
    parser = argparse.ArgumentParser(prog="python -m bench", description=main.__doc__)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(names)}; all by default but {', '.join(LONG)}"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(names):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; choose from {', '.join(names)}")
    rows = []
    for name in arguments.names or [name for name in names if name not in LONG]:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        rows += measure(name)
    RESULTS.write_text(json.dumps(rows, indent=2) + "\n")
    print(table(rows))
    return 0


def measure(name: str) -> list[dict]:
    """Rows of one benchmark."""
    try:
        return importlib.import_module(f"bench.{name}").measure()
    except Exception as error:  # one that fails must not take the others' figures with it
        return [
            {
                "name": name,
                "value": None,
                "unit": f"not measured: {error}",
                "peer": "",
                "peer_value": None,
                "ratio": None,
            }
        ]


def table(rows: list[dict]) -> str:
    """Rows in aligned columns."""
    lines = [FIELDS, *([_cell(row.get(field)) for field in FIELDS] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(FIELDS))]
    return "\n".join("  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)) for line in lines)


def _cell(value: object) -> str:
    if value is None:
        return "–"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
