"""manage.py token NAME: print a new bearer token for an operator, alone on its line."""

import argparse

import psycopg
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from webapp.accounts.services import create_token, script_user


class Command(BaseCommand):
    """Make a token for the script NAME; its user is made the first time."""

    help = "Print a bearer token for the script NAME, which acts as an operator. It is not shown again."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", help="what the token is for; also the name of its user")

    def handle(self, *, name: str, **_: object) -> None:
        try:
            # Asked without the pool, which would try again for long and log each time.
            psycopg.connect(settings.DATABASE_URL, connect_timeout=5).close()
            _, text = create_token(user=script_user(name), name=name)
        except (psycopg.Error, DatabaseError) as error:
            why = str(error).strip().splitlines()[0]
            raise CommandError(f"The database cannot be reached ({why}). Is `make up` running on this DATA?") from error
        self.stdout.write(text)
