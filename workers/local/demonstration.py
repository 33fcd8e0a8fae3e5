"""The run that a newcomer finds: the smallest preset on a real text, making way for any other run."""

from webapp.accounts.models import User
from webapp.runs.models import Priority, Run
from webapp.runs.services import create_run
from zaya_model.presets import load_preset

PRESET = "tiny-cpu"


def queue_demonstration() -> Run:
    """Queue it for the first administrator."""
    owner = User.objects.filter(is_superuser=True).order_by("id").first()
    return create_run(
        owner=owner,
        name="Demonstration",
        preset=PRESET,
        config=load_preset(PRESET),
        tags=["demo"],
        notes="Learns Moby-Dick letter by letter. It makes way for any run of yours and goes on afterwards.",
        priority=Priority.LOW,
    )
