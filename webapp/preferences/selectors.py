"""Read what a user chose."""

from django.db.models import F, Q

from webapp.accounts.models import User
from webapp.preferences.models import PinnedCharts, SavedView
from webapp.runs.models import Run


def pinned_charts(user: User, run: Run) -> list[str] | None:
    """Ids of the charts pinned for this run, else the user's default, else None."""
    own = PinnedCharts.objects.filter(Q(run=run) | Q(run=None), user=user)
    return own.order_by(F("run").asc(nulls_last=True)).values_list("charts", flat=True).first()


def saved_views(user: User) -> list[SavedView]:
    """The user's views by name."""
    return list(SavedView.objects.filter(user=user))
