"""Every setting the environment can give, in one table: read by settings.py, shown by the docs."""

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class UnusableSetting(Exception):
    """A setting whose value cannot be used."""


@dataclass(frozen=True)
class Setting:
    """One environment variable: its name, how its text is read, its default, and what it is for."""

    name: str
    read: Callable[[str], Any]
    default: str
    help: str


def embedded_database_url(data: Path) -> str:
    """Address of the embedded PostgreSQL of a DATA folder."""
    return f"postgresql://postgres@/zayaboard?host={data}/sockets"


def embedded_redis_url(data: Path) -> str:
    """Address of the embedded Valkey of a DATA folder."""
    return f"unix://{data}/sockets/valkey.sock"


def _flag(text: str) -> bool:
    if text.lower() not in {"0", "1", "false", "true", "no", "yes", "off", "on"}:
        raise ValueError("write 1 or 0")
    return text.lower() in {"1", "true", "yes", "on"}


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _folder(text: str) -> Path:
    return Path(text).expanduser().resolve()


def _launcher(text: str) -> str:
    if text not in {"processes", "slurm"}:
        raise ValueError("write processes or slurm")
    return text


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("write a whole number from 1 on")
    return int(text)


SETTINGS = (
    Setting("DATA", _folder, "./var", "Folder of everything this machine keeps: runs, embedded servers, keys."),
    Setting("DATABASE_URL", str, "", "PostgreSQL server; empty means the embedded one below DATA."),
    Setting("DATABASE_REPLICA_URL", str, "", "Read replica for charts; empty means the database itself."),
    Setting("REDIS_URL", str, "", "Redis or Valkey server; empty means the embedded one below DATA."),
    Setting("RUNS_DIR", str, "", "Folder of the run folders, shared by all nodes; empty means DATA/runs."),
    Setting("SECRET_KEY", str, "", "Signs sessions; empty means one that is made and kept below DATA."),
    Setting("DEBUG", _flag, "0", "Show tracebacks in the browser; never on a shared machine."),
    Setting("ALLOWED_HOSTS", _words, "*", "Host names the web process answers to, comma-separated."),
    Setting("CSRF_TRUSTED_ORIGINS", _words, "", "Origins a proxy serves from, such as https://train.example."),
    Setting("HTTPS", _flag, "0", "Cookies only over HTTPS; set it behind a TLS proxy."),
    Setting("LEASE_SECONDS", float, "30", "A node not heard of for so long has lost its runs."),
    Setting("NODE_NAME", str, "", "Name or address that other nodes reach this one by; empty means its host name."),
    Setting("LAUNCHER", _launcher, "processes", "How a node worker starts trainers: processes or slurm."),
    Setting("SLURM_SLOTS", _positive, "16", "Runs a Slurm gateway hands in at once, each as one job."),
    Setting("SLURM_OPTIONS", shlex.split, "", "More flags for sbatch, such as --partition=gpu --gpus-per-node=8."),
    Setting("LOG_LEVEL", str, "INFO", "Least severe message of the servers' own logs."),
)


def read_environment() -> dict[str, Any]:
    """Read every setting. Raises UnusableSetting naming the variable and what would be right."""
    values = {}
    for setting in SETTINGS:
        text = os.environ.get(setting.name, "") or setting.default
        try:
            values[setting.name] = setting.read(text)
        except ValueError as error:
            raise UnusableSetting(f"{setting.name}={text!r} cannot be used: {error}. {setting.help}") from error
    return values
