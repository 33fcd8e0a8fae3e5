"""The scripts of a page: whatever a module imports is fetched with it, and is there."""

from pathlib import Path

import pytest
from django.contrib.staticfiles import finders

from webapp.pages.templatetags.scripts import imports, module

MODULES = sorted(path.name for path in Path(finders.find("js/live.js")).parent.glob("*.js"))


@pytest.mark.parametrize("name", MODULES)
def test_all_that_a_module_imports_is_fetched_with_it(name):
    text = Path(finders.find(f"js/{name}")).read_text()
    direct = {line.split('"')[-2].removeprefix("./") for line in text.splitlines() if line.startswith("import ")}
    assert {f"js/{each}" for each in direct} <= set(imports(name))
    assert all(finders.find(path) for path in imports(name))


def test_modules_of_modules_are_fetched_with_the_page():
    assert 'rel="modulepreload" href="/static/js/plot.js"' in module("run.js")
