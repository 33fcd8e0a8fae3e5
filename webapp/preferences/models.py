"""PinnedCharts, kept at the top of a run's page; SavedView, a named look at the table of runs."""

from django.conf import settings
from django.db import models

from webapp.runs.models import Run


class PinnedCharts(models.Model):
    """One user's pinned charts: of a run, or without a run of every run that has no choice of its own."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="pinned_charts")
    run = models.ForeignKey(Run, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    charts = models.JSONField(default=list, help_text="Ids of charts, first the one shown first.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "run"], nulls_distinct=False, name="pinned_charts_once")]

    def __str__(self) -> str:
        return f"{self.user_id}:{self.run_id or 'default'}"


class SavedView(models.Model):
    """One user's name for a query, its columns and its order; as an address, so that it can be sent to others."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="saved_views")
    name = models.CharField(max_length=60)
    address = models.CharField(max_length=4000, blank=True, help_text="What stands behind the ? of the list's address.")

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="saved_view_once")]

    def __str__(self) -> str:
        return self.name
