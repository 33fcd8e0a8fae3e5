"""Pinned charts and saved views in the console: whose they are."""

from django.contrib import admin
from unfold.admin import ModelAdmin

from webapp.preferences.models import PinnedCharts, SavedView


@admin.register(PinnedCharts)
class PinnedChartsAdmin(ModelAdmin):
    """To look at and to delete."""

    list_display = ("user", "run")
    raw_id_fields = ("user", "run")


@admin.register(SavedView)
class SavedViewAdmin(ModelAdmin):
    """To look at and to delete."""

    list_display = ("user", "name", "address")
    raw_id_fields = ("user",)
