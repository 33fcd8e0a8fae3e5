"""Pinned charts: kept for each user and run, with a default for the others."""

import pytest
from django.core.exceptions import ValidationError

from webapp.preferences.selectors import pinned_charts
from webapp.preferences.services import MOST_PINS, forget_pins, pin_charts

pytestmark = pytest.mark.django_db


def test_nobody_has_pins_to_begin_with(operator, run):
    assert pinned_charts(operator, run) is None


def test_order_is_kept_and_doubles_are_not(operator, run):
    pin_charts(operator, run, ["b", "a", "b"])
    assert pinned_charts(operator, run) == ["b", "a"]


def test_pins_are_ones_own(operator, viewer, run):
    pin_charts(operator, run, ["a"])
    assert pinned_charts(viewer, run) is None


def test_default_holds_for_runs_without_a_choice(operator, make_run):
    chosen, other = make_run("chosen"), make_run("other")
    pin_charts(operator, None, ["a"])
    pin_charts(operator, chosen, [])
    assert (pinned_charts(operator, chosen), pinned_charts(operator, other)) == ([], ["a"])


def test_last_choice_wins_and_forgetting_brings_the_default_back(operator, run):
    for charts in (["a"], ["b"]):
        pin_charts(operator, None, charts)
        pin_charts(operator, run, ["of", "the run"])
    forget_pins(operator, run)
    assert pinned_charts(operator, run) == ["b"]


@pytest.mark.parametrize("charts", [[""], ["x" * 251], [7], [str(number) for number in range(MOST_PINS + 1)]])
def test_what_can_be_no_pins_is_refused(operator, run, charts):
    with pytest.raises(ValidationError):
        pin_charts(operator, run, charts)
    assert pinned_charts(operator, run) is None


def test_text_that_postgres_cannot_hold_is_made_storable(operator, run):
    pin_charts(operator, run, ["a\x00b"])
    assert "\x00" not in pinned_charts(operator, run)[0]
