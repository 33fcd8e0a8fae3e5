"""Numbers, sizes and times as a person reads them."""

import math
from datetime import timedelta

import pytest
from django.utils import timezone

from webapp.pages.templatetags import shown


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (0, "0"), (0.123456, "0.1235"), (999, "999"), (12_345, "12.3 k"), (8.84e9, "8.84 G"),
     (math.nan, "NaN"), (math.inf, "∞"), (-math.inf, "−∞")],
)  # fmt: skip
def test_numbers(value, text):
    assert shown.si(value) == text


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (12, "12 B"), (1500, "1.5 kB"), (14_264_308, "14.3 MB")])
def test_sizes(value, text):
    assert shown.size(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "–"), (0.004, "4 ms"), (5.25, "5.2 s"), (59, "59 s"), (3600, "1 h"), (3725, "1 h 2 min"),
     (90_000, "1 d 1 h"), (math.inf, "–")],
)  # fmt: skip
def test_durations(seconds, text):
    assert shown.duration(seconds) == text


def test_how_long_ago():
    assert shown.ago(None) == "never"
    assert shown.ago(timezone.now() - timedelta(minutes=2)) == "2 min ago"


def test_code_is_marked_and_markup_is_not_trusted():
    assert shown.marked("use `a<b>` or <i>") == "use <code>a&lt;b&gt;</code> or &lt;i&gt;"
