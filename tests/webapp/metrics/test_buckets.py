"""What a bucket knows of its points, whichever way it was folded."""

import math

import numpy as np
import pytest

from webapp.metrics.buckets import Buckets, Points


def folded(steps, values, bits):
    return Buckets.of(Points.sorted(steps, range(len(steps)), values)).fold(bits)


def test_bucket_knows_its_ends_its_extremes_and_its_mean():
    (*rest,) = (column.tolist() for column in folded([4, 5, 7, 8], [1.0, 9.0, 2.0, 5.0], 2))
    assert rest == [[4, 8], [7, 8], [0, 3], [2, 3], [3, 1], [0, 0], [1.0, 5.0], [2.0, 5.0], [1.0, 5.0], [9.0, 5.0],
                    [12.0, 5.0]]  # fmt: skip


def test_nan_is_counted_and_hides_nothing():
    bucket = folded([0, 1, 2], [3.0, math.nan, 1.0], 2)
    assert (bucket.least[0], bucket.most[0], bucket.mean()[0], bucket.nans[0]) == (1.0, 3.0, 2.0, 1)


def test_bucket_of_nothing_but_nan_is_nan():
    bucket = folded([0, 1], [math.nan, math.nan], 1)
    assert np.isnan([bucket.least[0], bucket.most[0], bucket.mean()[0], bucket.last[0]]).all()


def test_infinities_are_extremes():
    bucket = folded([0, 1, 2], [math.inf, 1.0, -math.inf], 2)
    assert (bucket.least[0], bucket.most[0]) == (-math.inf, math.inf)


def test_repeated_step_ends_with_its_newest_value():
    bucket = folded([1, 1, 1], [1.0, 2.0, 3.0], 0)
    assert (bucket.first[0], bucket.last[0], bucket.count[0]) == (1.0, 3.0, 3)


def test_negative_steps_fall_into_buckets_below_zero():
    assert folded([-5, -4, -1, 0], [1.0] * 4, 2).count.tolist() == [1, 2, 1]


@pytest.mark.parametrize("seed", range(5))
def test_folding_in_parts_and_in_any_order_gives_the_same(seed):
    random = np.random.default_rng(seed)
    steps, values = random.integers(-300, 300, 2000), random.normal(size=2000).round(3)
    points = Points.sorted(steps, np.arange(2000), values)
    parts = [
        Buckets.of(Points.sorted(*(column[part] for column in points))).fold(int(random.integers(0, 4)))
        for part in np.array_split(random.permutation(2000), 7)
    ]
    at_once, in_parts = Buckets.of(points).fold(5), Buckets.joined(parts).fold(5)
    for one, other in zip(at_once, in_parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
