"""Make and check API tokens; make the first administrator and the users of scripts."""

import hashlib
import secrets
from datetime import timedelta

from django.utils import timezone

from webapp.accounts.models import ApiToken, Role, User

_LAST_USED_GRAIN = timedelta(minutes=1)


def create_token(*, user: User, name: str) -> tuple[ApiToken, str]:
    """Make a token; the text returned with it cannot be had again."""
    text = f"zb_{secrets.token_urlsafe(32)}"
    return ApiToken.objects.create(user=user, name=name, digest=_digest(text), prefix=text[:8]), text


def user_of_token(text: str) -> User | None:
    """The active user a token stands for, or None."""
    token = ApiToken.objects.select_related("user").filter(digest=_digest(text), user__is_active=True).first()
    if token is None:
        return None
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at > _LAST_USED_GRAIN:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token.user


def script_user(name: str) -> User:
    """The operator that a script of this name acts as; it has no password and cannot log in."""
    user, created = User.objects.get_or_create(username=name, defaults={"role": Role.OPERATOR})
    if created:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    return user


def create_first_administrator() -> tuple[str, str] | None:
    """Make the user `admin` with a generated password and return both, unless a superuser exists."""
    if User.objects.filter(is_superuser=True).exists():
        return None
    password = secrets.token_urlsafe(12)
    User.objects.create_superuser(username="admin", password=password, role=Role.OPERATOR)
    return "admin", password


def _digest(text: str) -> str:
    # A token has 256 random bits, so a fast hash without salt is as safe as a slow one.
    return hashlib.sha256(text.encode()).hexdigest()
