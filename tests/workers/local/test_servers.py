"""Embedded servers: a folder that cannot be used is said in a sentence, one that can is used again."""

import pytest

from tests import embedded
from workers.local.servers import ServerError, Servers, wait_for_broker, wait_for_database


def test_folder_too_long_for_a_socket_is_said_with_how_much(tmp_path):
    with pytest.raises(ServerError, match=r"too long for a socket by \d+ characters; choose a shorter folder"):
        Servers(tmp_path / ("x" * 120)).make_folders()


def test_folders_made_before_are_left_as_they_are(embedded_servers):
    servers = Servers(embedded.DATA)
    version = servers.data / "postgres" / "PG_VERSION"
    before = version.stat().st_mtime_ns
    assert servers.make_folders() is None
    assert version.stat().st_mtime_ns == before


def test_nothing_listens_on_the_network(embedded_servers):
    command = Servers(embedded.DATA)
    assert "listen_addresses=" in command.postgres_command()
    words = command.valkey_command()
    assert words[words.index("--port") + 1] == "0"


def test_server_that_does_not_answer_is_said(tmp_path):
    with pytest.raises(ServerError, match="PostgreSQL does not answer"):
        wait_for_database(f"postgresql://postgres@/zayaboard?host={tmp_path}", seconds=0.1)
    with pytest.raises(ServerError, match="Redis does not answer"):
        wait_for_broker(f"unix://{tmp_path}/valkey.sock", seconds=0.1)


def test_database_that_is_not_there_is_made(embedded_servers):
    url = f"postgresql://postgres@/made_by_a_test?host={embedded.DATA}/sockets"
    wait_for_database(url)
    wait_for_database(url)
