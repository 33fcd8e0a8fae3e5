"""manage.py healthy scheduler|node: whether it was heard of within its lease; for container health checks."""

import argparse

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from webapp.fleet.models import Node, Service


class Command(BaseCommand):
    """Exit with 0 when it is alive, with 1 and a sentence when not."""

    help = "Exit with 0 when the scheduler, or this machine's node worker, was heard of within its lease."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("part", choices=("scheduler", "node"))

    def handle(self, *, part: str, **_: object) -> None:
        name = settings.NODE_NAME if part == "node" else part
        found = (Node if part == "node" else Service).objects.filter(name=name).first()
        if found is None or not found.is_alive:
            raise CommandError(f"{part} {name} was not heard of for {settings.LEASE_SECONDS:.0f} seconds.")
        self.stdout.write("ok")
