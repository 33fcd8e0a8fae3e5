"""Nodes in the console: what is known of them, drain and undrain."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from webapp.fleet import services
from webapp.fleet.models import Node


@admin.register(Node)
class NodeAdmin(ModelAdmin):
    """Nodes register themselves; here they are drained, or forgotten when they are gone for good."""

    list_display = ("name", "alive", "is_draining", "num_devices", "device_name", "slots", "num_cores", "last_seen_at")
    search_fields = ("name",)
    actions = ("drain", "undrain")

    @admin.display(boolean=True, description="alive")
    def alive(self, node: Node) -> bool:
        return node.is_alive

    @admin.action(description="Drain: give no new runs")
    def drain(self, request: HttpRequest, nodes: QuerySet[Node]) -> None:
        for node in nodes:
            services.drain_node(node)

    @admin.action(description="Undrain: give runs again")
    def undrain(self, request: HttpRequest, nodes: QuerySet[Node]) -> None:
        for node in nodes:
            services.undrain_node(node)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Node | None = None) -> bool:
        # The list's actions need it; the form shows only what cannot be changed.
        return obj is None
