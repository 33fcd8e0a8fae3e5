"""Who asks: a bearer token, or the browser's session; and whether they may change anything."""

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from ninja.errors import HttpError
from ninja.security import HttpBearer, SessionAuth

from webapp.accounts.models import User
from webapp.accounts.services import user_of_token


class BearerToken(HttpBearer):
    """`Authorization: Bearer TOKEN`."""

    def authenticate(self, request: HttpRequest, token: str) -> User | None:
        user = user_of_token(token)
        if user is not None:
            request.user = user
        return user


class BrowserSession(SessionAuth):
    """The login of the pages; changes need their CSRF token too."""

    def authenticate(self, request: HttpRequest, key: str | None) -> User | None:
        user = request.user
        return None if isinstance(user, AnonymousUser) else user


AUTH = [BearerToken(), BrowserSession()]


def require_operator(request: HttpRequest) -> User:
    """The user, if they may change things. Raises HttpError 403."""
    if not request.user.can_operate:
        raise HttpError(403, "Viewers may not change anything; ask an administrator for the operator role.")
    return request.user
