"""A permutation without a table."""

import numpy as np
import pytest

from zaya_model.data.order import shuffled


@pytest.mark.parametrize("size", [1, 2, 3, 17, 1000, 4096, 9999])
def test_every_number_comes_once(size: int) -> None:
    assert sorted(shuffled(np.arange(size), size, 3, 1)) == list(range(size))


def test_the_place_of_one_needs_none_of_the_others() -> None:
    assert shuffled(np.array([77]), 1000, 5)[0] == shuffled(np.arange(1000), 1000, 5)[77]


def test_another_key_gives_another_order() -> None:
    first, second = (shuffled(np.arange(1000), 1000, 0, epoch) for epoch in (0, 1))
    assert (first == second).mean() < 0.02


def test_neighbours_are_strangers() -> None:
    order = shuffled(np.arange(10_000), 10_000, 1)
    assert abs(np.corrcoef(order[1:], order[:-1])[0, 1]) < 0.05


def test_a_trillion_windows_need_no_memory() -> None:
    assert 0 <= shuffled(np.array([10**11]), 10**12, 1)[0] < 10**12
