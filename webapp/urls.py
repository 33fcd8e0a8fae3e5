"""The two doors, pages and API; the console behind them; and the sign of life."""

from django.contrib import admin
from django.urls import include, path

from webapp.api.router import api
from webapp.health import healthz

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("api/v1/", api.urls),
    path("admin/", admin.site.urls),
    path("", include("webapp.pages.urls")),
]
