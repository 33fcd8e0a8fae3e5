"""Which charts a run has, and which of them a user sees first: in the run's page, and anew when a series is new."""

from dataclasses import asdict
from typing import Any

from webapp.accounts.models import User
from webapp.metrics import figures, selectors
from webapp.preferences.selectors import pinned_charts
from webapp.runs.models import Run


def board_of(user: User, run: Run) -> dict[str, Any]:
    """Every chart that can be drawn, which of them this user pinned, and what their axes need to know."""
    keys = selectors.list_keys(run)
    pins = pinned_charts(user, run)
    return {
        "charts": [asdict(chart) for chart in figures.charts_of(keys)],
        "pins": [chart.id for chart in figures.CHARTS] if pins is None else pins,
        "num_keys": len(keys),
        "tokens_per_step": run.tokens_per_step,
        "started": run.started_at.timestamp() if run.started_at else 0.0,
    }
