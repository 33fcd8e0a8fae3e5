"""Columns to bytes and back: every bit of every number."""

import math

import numpy as np
import pytest

from webapp.metrics.codec import INTEGER, REAL, pack, unpack


@pytest.mark.parametrize(
    "values",
    [
        [0.0, -0.0, 1e-300, -1e308, 5e-324],
        [math.nan, math.inf, -math.inf, 1.0],
        [2.5],
        np.random.default_rng(1).normal(size=513).tolist(),
    ],
)
def test_reals_come_back_bit_for_bit(values):
    column = np.array(values, REAL)
    (back,) = unpack(pack([column]), [REAL])
    assert back.tobytes() == column.tobytes()


@pytest.mark.parametrize("values", [[0], [7, 7, 7], [5, -3, 2**62 - 1, -(2**62) + 1, 0], list(range(0, 5120, 10))])
def test_whole_numbers_come_back(values):
    (back,) = unpack(pack([np.array(values, INTEGER)]), [INTEGER])
    assert back.tolist() == values


def test_columns_of_both_kinds_keep_their_places():
    steps, values = np.arange(100, dtype=INTEGER), np.linspace(0, 1, 100)
    back = unpack(pack([steps, values, steps]), [INTEGER, REAL, INTEGER])
    assert [column.tolist() for column in back] == [steps.tolist(), values.tolist(), steps.tolist()]


def test_regular_steps_cost_next_to_nothing():
    assert len(pack([np.arange(10**6, 10**6 + 5120, 10, dtype=INTEGER)])) < 100
