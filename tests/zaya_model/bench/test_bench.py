"""Figures of this machine are figures, and what is not known is called unknown."""

from pathlib import Path

import pytest
import torch

from zaya_model.bench.matmul import device_name, measure_matmul_flops, spec_flops
from zaya_model.bench.memory import measure_copy_bytes
from zaya_model.bench.storage import measure_storage_bytes
from zaya_model.errors import ZayaError

CPU = torch.device("cpu")


def test_products_and_copies_have_a_rate() -> None:
    assert measure_matmul_flops(CPU, torch.float32, seconds=0.02) > 1e9
    assert measure_copy_bytes(CPU, seconds=0.02) > 1e8


def test_measuring_leaves_the_random_state_alone() -> None:
    before = torch.get_rng_state()
    measure_matmul_flops(CPU, torch.float32, seconds=0.01)
    assert torch.equal(before, torch.get_rng_state())


def test_a_folder_has_a_rate_and_is_left_clean(tmp_path: Path) -> None:
    rates = measure_storage_bytes(tmp_path, total_bytes=16 << 20)
    assert min(rates.values()) > 1e6
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ZayaError, match="gone cannot be measured: No such file"):
        measure_storage_bytes(tmp_path / "gone")


@pytest.mark.parametrize(
    ("name", "flops"),
    [
        ("AMD Instinct MI300X", 1307.4e12), ("AMD Instinct MI300X OAM", 1307.4e12), ("NVIDIA H200", 989.4e12),
        ("AMD Radeon Pro W7900", None), ("AMD EPYC, 2 threads", None), ("", None),
    ],
)  # fmt: skip
def test_only_a_known_device_has_a_spec(name: str, flops: float | None) -> None:
    assert spec_flops(name) == flops


def test_this_device_has_a_name() -> None:
    assert "thread" in device_name(CPU)
