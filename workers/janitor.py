"""Remove what deleted runs left, piece by piece: each node its folder, any node the rows, the run itself last.

Every piece is a transaction of its own, so nobody waits for it long, and whoever dies in between has a successor.
"""

import logging
import shutil
from pathlib import Path

from django.db import transaction
from django.utils import timezone

from webapp.fleet.selectors import usable_nodes
from webapp.metrics import services as metrics
from webapp.runs.models import Placement, Run
from webapp.runs.selectors import deleted_runs

log = logging.getLogger(__name__)

_PIECES = (metrics.delete_points, metrics.delete_router_loads, metrics.delete_lines)


def sweep(node_name: str, runs_dir: Path) -> None:
    """Remove all that can be removed now."""
    remove_folders(node_name, runs_dir)
    waiting: list[int] = []
    while remove_piece(waiting):
        pass


def remove_folders(node_name: str, runs_dir: Path) -> None:
    """Remove the folders of deleted runs from this node; one that stays is said in the log and tried again."""
    here = Placement.objects.filter(node__name=node_name, cleared_at=None, attempt__run__deleted_at__isnull=False)
    for run_id in here.values_list("attempt__run", flat=True).distinct():
        folder = runs_dir / str(run_id)
        try:
            if folder.exists():
                shutil.rmtree(folder)
        except OSError as error:
            log.warning("the folder of deleted run %s cannot be removed: %s", run_id, error)
            continue
        here.filter(attempt__run=run_id).update(cleared_at=timezone.now())


def remove_piece(waiting: list[int]) -> bool:
    """Remove some rows of a deleted run that nobody else is at; False when there is none.

    A run that is left with nothing but a folder on another node joins those `waiting`.
    """
    with transaction.atomic():
        free = deleted_runs().exclude(pk__in=waiting).select_for_update(skip_locked=True)
        run = free.order_by("deleted_at").first()
        if run is None:
            return False
        if not any(remove(run) for remove in _PIECES):
            if _waits_for_a_node(run):
                waiting.append(run.pk)
            else:
                run.delete()
    return True


def _waits_for_a_node(run: Run) -> bool:
    """A node that is alive will remove its folder soon; one that is not may never come back."""
    return Placement.objects.filter(attempt__run=run, cleared_at=None, node__in=usable_nodes()).exists()
