"""Keep and forget what a user chose."""

from collections.abc import Sequence

from django.core.exceptions import ValidationError

from webapp.accounts.models import User
from webapp.preferences.models import PinnedCharts, SavedView
from webapp.runs.models import Run
from webapp.text import storable

MOST_PINS = 100
MOST_VIEWS = 50
_LONGEST_ID = 250


def pin_charts(user: User, run: Run | None, charts: Sequence[str]) -> None:
    """Keep these charts, in this order, for a run or (None) as the user's default; twice the same counts once.

    Raises ValidationError for more than MOST_PINS, or for what can be no chart's id.
    """
    if not all(isinstance(chart, str) and 0 < len(chart) <= _LONGEST_ID for chart in charts):
        raise ValidationError(f"A chart's id is a text of 1 to {_LONGEST_ID} characters.")
    kept = list(dict.fromkeys(map(storable, charts)))
    if len(kept) > MOST_PINS:
        raise ValidationError(f"At most {MOST_PINS} charts can be pinned, not {len(kept)}.")
    PinnedCharts.objects.update_or_create(user=user, run=run, defaults={"charts": kept})


def forget_pins(user: User, run: Run | None) -> None:
    """Go back to the user's default for a run, or (None) to the house's."""
    PinnedCharts.objects.filter(user=user, run=run).delete()


def save_view(user: User, name: str, address: str) -> SavedView:
    """Keep a look at the table of runs under a name; a name used before is given to the new one.

    Raises ValidationError without a name, for what is too long, or for more than MOST_VIEWS.
    """
    name = " ".join(storable(name).split())
    if not name:
        raise ValidationError("Give the view a name.")
    view = SavedView.objects.filter(user=user, name=name).first() or SavedView(user=user, name=name)
    if view.pk is None and SavedView.objects.filter(user=user).count() >= MOST_VIEWS:
        raise ValidationError(f"At most {MOST_VIEWS} views can be kept; delete one first.")
    view.address = storable(address)
    view.full_clean()
    view.save()
    return view


def forget_view(user: User, view_id: int) -> None:
    """Delete one's own view; somebody else's, or none, is left alone."""
    SavedView.objects.filter(user=user, pk=view_id).delete()
