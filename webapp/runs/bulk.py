"""One action on many runs: what was done, and of each run that refused, why."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from django.core.exceptions import ValidationError

from webapp.runs.models import Run
from webapp.runs.states import NotAllowed


@dataclass
class Outcome:
    """Runs the action was done on, and a sentence for each that refused."""

    done: list[Run] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


def act_on(runs: Iterable[Run], action: Callable[[Run], object]) -> Outcome:
    """Do it to each run in a transaction of its own; one that refuses holds up no other."""
    outcome = Outcome()
    for run in runs:
        try:
            action(run)
        except NotAllowed as error:
            outcome.refusals.append(str(error))
        except ValidationError as error:
            outcome.refusals.append(f"Run {run.pk}: {' '.join(error.messages)}")
        else:
            outcome.done.append(run)
    return outcome
