"""Two rules for every page: a login first, and nothing loaded from elsewhere."""

from collections.abc import Callable

from django.conf import settings
from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from webapp.accounts.models import User

# Plotly sets styles on the elements it draws; everything else comes from our own files.
_POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
)
_OTHER_ROOMS = ("/admin/", "/api/")


def require_operator(user: User, *, to: str) -> None:
    """Raises PermissionDenied, with what a viewer may not do, for anybody who may not change things."""
    if not user.can_operate:
        raise PermissionDenied(f"Viewers may not {to}; ask an administrator for the operator role.")


class ContentPolicy:
    """Send the pages' content security policy; the console and the API's docs bring scripts of their own."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if not request.path.startswith((*_OTHER_ROOMS, settings.STATIC_URL)):
            response.setdefault("Content-Security-Policy", _POLICY)
        return response


class LoginFirst(LoginRequiredMiddleware):
    """Every view needs a login, except those marked otherwise and the API, which asks for itself."""

    def process_view(
        self, request: HttpRequest, view_func: Callable, view_args: tuple, view_kwargs: dict
    ) -> HttpResponse | None:
        if request.path.startswith("/api/"):
            return None
        return super().process_view(request, view_func, view_args, view_kwargs)
