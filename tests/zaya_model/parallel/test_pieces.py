"""Work is shared out evenly, and small things travel together."""

from zaya_model.parallel.pieces import put_together, share_out


def test_shares_are_even_and_leave_nothing_out() -> None:
    shares = share_out(range(1, 60), float, 4)
    assert sorted(item for share in shares for item in share) == list(range(1, 60))
    sums = [sum(share) for share in shares]
    assert max(sums) - min(sums) <= 4


def test_of_equal_things_each_rank_gets_the_same_whoever_asks() -> None:
    assert share_out("abcde", lambda _: 1.0, 2) == [["a", "c", "e"], ["b", "d"]]


def test_what_is_small_travels_together_and_what_is_large_alone() -> None:
    assert list(put_together([9, 8, 1, 2, 3, 4], lambda size: size, 5)) == [[9], [8], [1, 2, 3], [4]]
