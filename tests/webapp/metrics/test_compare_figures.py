"""Figures of many runs: what is drawn of each, and what a group's mean and band are."""

import math

import plotly.graph_objects as go
import pytest

from webapp.metrics.compare_figures import MOST_GRID_POINTS, Track, group_figure, overlay_figure


def lines(figure: dict) -> list[dict]:
    return [trace for trace in figure["data"] if not trace.get("fill")]


def test_each_run_is_a_line_in_its_own_colour():
    figure = overlay_figure([Track("a", 4, [1, 2], [1.0, 2.0]), Track("b", 7, [1], [3.0])])
    assert [(trace["name"], trace["meta"]["series"], trace["mode"]) for trace in figure["data"]] == [
        ("a", 4, "lines"), ("b", 7, "markers"),
    ]  # fmt: skip


def test_smoothing_leaves_what_was_measured_faintly_behind():
    figure = overlay_figure([Track("a", 0, [1, 2, 3], [0.0, 1.0, 0.0])], smoothing=0.5)
    assert (figure["data"][0]["opacity"], figure["data"][0]["y"]) == (0.2, [0.0, 1.0, 0.0])
    assert figure["data"][1]["y"] != [0.0, 1.0, 0.0]


def test_mean_counts_each_run_only_where_it_was():
    figure = group_figure({"g": [Track("a", 0, [0, 10], [0.0, 10.0]), Track("b", 1, [5, 15], [1.0, 1.0])]})
    mean = dict(zip(lines(figure)[0]["x"], lines(figure)[0]["y"], strict=True))
    assert mean == {0: 0.0, 5: 3.0, 10: 5.5, 15: 1.0}


def test_band_reaches_from_the_least_to_the_greatest():
    figure = group_figure({"g": [Track("a", 0, [1, 2], [1.0, 5.0]), Track("b", 1, [1, 2], [3.0, 4.0])]})
    assert figure["data"][0]["y"] == [3.0, 5.0, 4.0, 1.0]


def test_spike_within_a_bucket_is_on_the_line_and_in_the_band():
    track = Track("a", 0, [10, 20, 30], [1.0, 1.5, 1.0], [0.5, 1.0, 1.0], [1.0, 9.0, 1.0])
    (drawn,) = overlay_figure([track])["data"]
    assert [*zip(drawn["x"], drawn["y"], strict=True)] == [(10, 0.5), (10, 1.0), (20, 1.0), (20, 9.0), (30, 1.0)]
    assert overlay_figure([track], smoothing=0.9)["data"][0]["y"] == drawn["y"]
    assert max(group_figure({"g": [track]}, smoothing=0.9)["data"][0]["y"]) == 9.0


def test_spike_between_the_places_of_the_grid_is_in_the_band():
    track = Track("a", 0, range(10_000), [float(step == 4567) for step in range(10_000)])
    figure = group_figure({"g": [track]})
    assert max(figure["data"][0]["y"]) == 1.0


def test_line_ends_with_the_newest_value():
    (drawn,) = overlay_figure([Track("a", 0, [10, 20], [1.0, 2.0], [1.0, 0.0], [1.0, 7.0])])["data"]
    assert drawn["y"] == [1.0, 0.0, 7.0, 2.0]


def test_values_that_are_no_numbers_are_left_out_of_means():
    figure = group_figure(
        {"g": [Track("a", 0, [1, 2, 3], [1.0, math.nan, 3.0])], "none": [Track("b", 1, [1], [math.inf])]}
    )
    assert [(trace["x"], trace["y"]) for trace in lines(figure)] == [([1, 3], [1.0, 3.0])]


def test_long_runs_are_thinned_with_both_ends_kept():
    figure = group_figure({"g": [Track("a", 0, range(10_000), [0.0] * 10_000)]})
    x = lines(figure)[0]["x"]
    assert (len(x), x[0], x[-1]) == (MOST_GRID_POINTS, 0, 9999)


@pytest.mark.parametrize("num_runs", [1, 50])
def test_plotly_itself_finds_nothing_wrong(num_runs):
    tracks = [Track(f"<{n}>", n, [1, 2], [n, math.nan]) for n in range(num_runs)]
    for figure in (overlay_figure(tracks, smoothing=0.5), group_figure({"g": tracks})):
        go.Figure(figure)
