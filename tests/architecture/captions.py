"""python -m tests.architecture.captions: write the tree in ARCHITECTURE.md from the modules' first sentences."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- tree -->\n", "<!-- /tree -->\n"
PACKAGES = ("zaya_model", "webapp", "workers", "bench")


def modules() -> Iterator[Path]:
    """Every module that is ours, packages before what is in them."""
    for package in PACKAGES:
        for path in sorted(
            (ROOT / package).rglob("*.py"), key=lambda path: (path.parent, path.name != "__init__.py", path)
        ):
            if "migrations" not in path.parts:
                yield path.relative_to(ROOT)


def caption(path: Path) -> str:
    """The first line of a module's docstring."""
    return (ast.get_docstring(ast.parse((ROOT / path).read_text())) or "").split("\n")[0]


def tree() -> str:
    """One line for each module; a package's line has its own sentence."""
    lines = []
    for path in modules():
        is_package = path.name == "__init__.py"
        name = f"{path.parent.name}/" if is_package else path.name
        depth = len(path.parts) - (2 if is_package else 1)
        lines.append(f"{'    ' * depth}{name:<{max(1, 30 - 4 * depth)}} {caption(path)}")
    return "```\n" + "\n".join(line.rstrip() for line in lines) + "\n```\n"


def written_tree() -> str:
    """What ARCHITECTURE.md says."""
    return DOCUMENT.read_text().split(BEGIN)[1].split(END)[0]


if __name__ == "__main__":
    before, rest = DOCUMENT.read_text().split(BEGIN)
    DOCUMENT.write_text(before + BEGIN + tree() + END + rest.split(END)[1])
