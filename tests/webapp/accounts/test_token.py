"""manage.py token: a token alone on its line, or one sentence."""

import os
import subprocess
import sys
from io import StringIO

import pytest
from django.core.management import call_command

from tests.stack import ROOT
from webapp.accounts.models import Role
from webapp.accounts.services import user_of_token


@pytest.fixture
def token(db, embedded_servers):
    def make(name: str) -> str:
        output = StringIO()
        call_command("token", name, stdout=output)
        return output.getvalue()

    return make


def test_token_stands_alone_on_its_line_and_is_an_operators(token):
    printed = token("nightly")
    assert printed.count("\n") == 1
    user = user_of_token(printed.strip())
    assert (user.username, user.role, user.has_usable_password()) == ("nightly", Role.OPERATOR, False)


def test_second_token_of_a_name_is_another_one_of_the_same_user(token):
    first, second = token("nightly").strip(), token("nightly").strip()
    assert first != second
    assert user_of_token(first) == user_of_token(second)


def test_database_that_is_away_is_said_in_a_sentence(tmp_path):
    environment = {**os.environ, "DATA": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "manage.py", "token", "x"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "Is `make up` running on this DATA?" in done.stderr
    assert "Traceback" not in done.stderr
