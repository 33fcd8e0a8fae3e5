"""Figures that Plotly accepts, from any numbers."""

import json
import math

import plotly.graph_objects as go
import pytest

from webapp.metrics import figures
from webapp.metrics.selectors import Curve

NAN = math.nan


def curve(key, values, *, low=None, high=None):
    steps = list(range(1, len(values) + 1))
    return Curve(key, steps, values, low or values, high or values)


def draw(chart_id="violation", curves=None, **options):
    chart = figures.chart_of(chart_id)
    curves = curves or [curve(key, [1.0, 2.0, 3.0]) for key in chart.keys]
    figure = figures.line_figure(chart, curves, **options)
    # The browser gets it as strict JSON; Plotly's own library knows what a figure may hold.
    json.dumps(figure, allow_nan=False)
    go.Figure(figure)
    return figure


@pytest.mark.parametrize("chart", figures.CHARTS, ids=lambda chart: chart.id)
def test_every_chart_is_a_figure_plotly_accepts(chart):
    assert len(draw(chart.id)["data"]) == len(chart.keys)


@pytest.mark.parametrize(
    "values", [[], [1.0], [NAN], [NAN, NAN], [1.0, NAN, math.inf, -math.inf, 2.0], [1e-300, 0.0, -1e308]]
)
@pytest.mark.parametrize("smoothing", [0.0, 0.9])
def test_any_numbers_make_a_figure(values, smoothing):
    draw(curves=[curve("router/max_violation", values)], smoothing=smoothing)


def test_what_is_no_number_is_a_gap_with_a_cross():
    line, marks = draw(curves=[curve("x", [1.0, NAN, 3.0])])["data"]
    assert line["y"] == [1.0, None, 3.0]
    assert (marks["x"], marks["y"], marks["text"]) == ([2], [1.0], ["NaN"])


def test_smoothed_line_keeps_the_raw_one_behind_it():
    raw, smooth = draw(curves=[curve("x", [0.0, 10.0, 0.0, 10.0])], smoothing=0.9)["data"]
    assert raw["opacity"] < 1
    assert max(smooth["y"]) < 10.0


def test_smoothing_has_no_bias_at_the_start():
    assert figures.smoothed([5.0, 5.0, 5.0], 0.99) == pytest.approx([5.0, 5.0, 5.0])


def test_buckets_show_their_extremes_as_a_band():
    band, _ = draw(curves=[curve("x", [1.0, 1.0], low=[0.0, 0.5], high=[9.0, 2.0])])["data"]
    assert (band["fill"], max(band["y"]), min(band["y"])) == ("toself", 9.0, 0.0)


def test_single_point_is_seen():
    assert draw(curves=[curve("x", [1.0])])["data"][0]["mode"] == "markers"


@pytest.mark.parametrize("level", [3e-4, -7.0, 1e300])
def test_level_line_is_in_the_middle_of_a_range_of_its_own_size(level):
    low, high = draw(curves=[curve("x", [level, level])])["layout"]["yaxis"]["range"]
    assert low < level < high
    assert high - low <= abs(level)


def test_names_are_kept_as_they_were_logged_for_the_table():
    chart = figures.Chart("c", "c", ("<b>", "=b"))
    layout = figures.line_figure(chart, [curve(key, [1.0, 2.0]) for key in chart.keys])["layout"]
    assert layout["meta"] == ["<b>", "=b"]


def test_every_key_has_one_chart():
    charts = figures.charts_of(["loss", "grad_norm/router", "odd"])
    assert [chart.id for chart in charts if "odd" in chart.keys] == ["odd"]
    assert len([chart for chart in charts if "grad_norm/router" in chart.keys]) == 1


def test_tokens_stretch_the_axis():
    assert draw(axis=figures.Axis("tokens", tokens_per_step=100))["data"][0]["x"] == [100, 200, 300]


@pytest.mark.parametrize(("kind", "places"), [("time", [100_000, 101_500]), ("relative", [10, 11.5])])
def test_points_lie_where_their_time_is(kind, places):
    timed = Curve("x", [1, 2], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0], times=[100.0, 101.5])
    axis = figures.Axis(kind, origin=90.0)
    assert draw(curves=[timed], axis=axis)["data"][0]["x"] == places
    assert [axis.time_at(place) for place in places] == timed.times


def test_nan_within_a_bucket_is_marked_and_the_line_goes_on():
    bucket = Curve("x", [1, 8, 16], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 2.0, 3.0], nans=[0, 2, 0])
    line, marks = draw(curves=[bucket])["data"]
    assert line["y"] == [1.0, 2.0, 3.0]
    assert (marks["x"], marks["text"]) == ([8], ["2 × NaN"])


def test_key_that_looks_like_markup_is_escaped():
    chart = figures.Chart("c", "c", ("<b>a</b>", "b"))
    figure = figures.line_figure(chart, [curve(key, [1.0, 2.0]) for key in chart.keys])
    assert figure["data"][0]["name"] == "&lt;b&gt;a&lt;/b&gt;"


def test_load_is_shown_as_share_of_the_fair_one():
    figure = figures.load_figure([[10, 30], [20, 20]])
    go.Figure(figure)
    assert figure["data"][0]["z"] == [[0.5, 1.5], [1.0, 1.0]]
    assert figure["data"][0]["zmid"] == 1


def test_layer_over_time_has_a_row_for_each_expert():
    figure = figures.layer_figure([10, 20], [[1, 3], [2, 2]])
    go.Figure(figure)
    assert figure["data"][0]["z"] == [[0.5, 1.0], [1.5, 1.0]]


def test_load_without_tokens_is_zero_and_no_fault():
    assert figures.load_figure([[0, 0]])["data"][0]["z"] == [[0.0, 0.0]]


@pytest.mark.parametrize("smoothing", [0.0, 0.6])
def test_what_was_done_again_lies_faint_under_the_lines_and_says_which_attempt_did_it(smoothing):
    again = {3: [curve("x", [1.0, NAN], low=[0.5, NAN], high=[2.0, NAN])], 4: [curve("x", [])]}
    figure = draw(curves=[curve("x", [1.0, 2.0])], smoothing=smoothing, replaced=again)
    of = lambda role: [trace for trace in figure["data"] if trace["meta"]["role"] == role]  # noqa: E731
    faint, main = of("line")
    assert (faint["name"], faint["meta"]["attempt"], "attempt" in main["meta"]) == ("attempt 3", 3, False)
    assert faint["opacity"] < 1
    assert [trace["name"] for trace in figure["data"] if trace.get("showlegend", True)] == ["earlier attempts"]
    assert {"band", "marks"} <= {trace["meta"]["role"] for trace in figure["data"] if "attempt" in trace["meta"]}
