"""Every message: it says "look", and the one it is for looks at the rows."""

from webapp import messages
from workers import agents, scheduler
from workers.celery import app


@app.task(name=messages.SCHEDULE)
def schedule() -> None:
    """A run waits, a node is free, or it is simply time."""
    scheduler.look()


@app.task(name=messages.WAKE_NODE)
def wake_node() -> None:
    """This node's placements changed."""
    agents.wake()
