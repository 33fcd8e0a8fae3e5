"""Pinned charts in the console: whose they are, and of which run."""

from django.contrib import admin
from unfold.admin import ModelAdmin

from webapp.preferences.models import PinnedCharts


@admin.register(PinnedCharts)
class PinnedChartsAdmin(ModelAdmin):
    """To look at and to delete."""

    list_display = ("user", "run")
    raw_id_fields = ("user", "run")
