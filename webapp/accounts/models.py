"""Users with a role, and API tokens of which only a hash is kept."""

from django.contrib.auth.models import AbstractUser
from django.db import models


class Role(models.TextChoices):
    """What a user may do; superusers may also administer."""

    VIEWER = "viewer", "Viewer: sees everything, changes nothing"
    OPERATOR = "operator", "Operator: also starts, stops and resumes runs"


class User(AbstractUser):
    """A person, or a script with a token."""

    role = models.CharField(max_length=16, choices=Role, default=Role.VIEWER)

    @property
    def can_operate(self) -> bool:
        """Whether this user may start, stop and resume runs."""
        return self.is_active and (self.is_superuser or self.role == Role.OPERATOR)


class ApiToken(models.Model):
    """A bearer token; the text itself is shown once and never stored."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    prefix = models.CharField(max_length=12, editable=False, help_text="First letters, to tell tokens apart.")
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"
