"""The house's own rules: who may import whom, what each file is for, and what the documents say."""

import subprocess
import sys

import pytest

from tests.architecture import captions
from webapp.environment import SETTINGS

ROOT = captions.ROOT


def test_nobody_imports_upwards():
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    "module", ["webapp.asgi, webapp.urls", "workers.celery, workers.tasks", "zaya_model.plan, zaya_model.presets"]
)
def test_torch_is_not_loaded_by(module):
    code = f"import os; os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'webapp.settings')\nimport {module}, sys\n"
    code += "from django.conf import settings\n" if "zaya" in module else ""
    subprocess.run([sys.executable, "-c", code + "assert 'torch' not in sys.modules"], cwd=ROOT, check=True)


@pytest.mark.parametrize("path", list(captions.modules()), ids=str)
def test_module_says_in_one_sentence_what_it_is_for(path):
    sentence = captions.caption(path)
    assert sentence.endswith((".", ":", "?"))
    assert len(sentence) <= 118


def test_architecture_has_every_module_with_its_own_sentence():
    assert captions.written_tree() == captions.tree(), "run: python -m tests.architecture.captions"


def test_every_setting_is_in_the_example():
    example = (ROOT / ".env.example").read_text()
    for setting in SETTINGS:
        assert f"\n# {setting.help}\n{setting.name}={setting.default}\n" in example


def test_every_route_is_documented():
    from webapp.api.router import api

    document = (ROOT / "docs" / "api.md").read_text()
    for path, methods in api.get_openapi_schema()["paths"].items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in document


def test_every_verb_of_the_makefile_says_what_it_does():
    lines = (ROOT / "Makefile").read_text().splitlines()
    verbs = next(line for line in lines if line.startswith(".PHONY:")).split()[1:]
    for verb in verbs:
        assert any(line.startswith(f"{verb}:") and "## " in line for line in lines), verb
