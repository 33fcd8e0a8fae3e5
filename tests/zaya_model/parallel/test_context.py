"""A sequence split over processes gives the loss, the gradients and the loads of a whole one."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.zaya_model.parallel.against_one import CASES

pytestmark = pytest.mark.multirank


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What four processes found, by case."""
    path = tmp_path_factory.mktemp("found") / "found.json"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4"]
    subprocess.run(
        [*launcher, "-m", "tests.zaya_model.parallel.against_one", str(path)],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True, timeout=120,
    )  # fmt: skip
    return json.loads(path.read_text())


@pytest.mark.parametrize("parts", [2, 3, 4])
@pytest.mark.parametrize("case", CASES)
def test_it_equals_one_process(found: dict[str, Any], case: str, parts: int) -> None:
    # Products in bf16 round where the sequence was cut.
    loss, gradients = (1e-3, 0.2) if case == "bf16" else (1e-5, 1e-5)
    this = found[f"{case}, {parts} parts"]
    assert this["loss"] < loss
    assert this["gradients"] < gradients
    assert this["loads"]
