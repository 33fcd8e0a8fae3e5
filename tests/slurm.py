"""A Slurm of the tests' own: a controller and three nodes, all of them this machine, in a folder of their own."""

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from getpass import getuser
from pathlib import Path

from tests.stack import free_port, wait_for

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch")
NODES = ("c1", "c2", "c3")
_CONFIG = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/%n.log
MailProg=/bin/true
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerParameters=sched_interval=1,bf_interval=1
ReturnToService=2
KillWait=1
MessageTimeout=2
PartitionName=all Nodes={nodes} Default=YES State=UP
"""
_NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=100\n"


def missing() -> str:
    """Why there can be no Slurm here, or nothing."""
    names = [name for name in NEEDED if not find(name)]
    return f"{', '.join(names)} not found, which slurm-wlm and munge bring" if names else ""


def find(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


class Cluster:
    """Daemons as children of the tests; the clients find them by SLURM_CONF."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.daemons: dict[str, subprocess.Popen] = {}

    def start(self) -> None:
        folder, host = self.folder, socket.gethostname()
        (folder / "munge").mkdir()
        (folder / "state").mkdir()
        key = folder / "munge" / "key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        text = _CONFIG.format(host=host, port=free_port(), user=getuser(), folder=folder, nodes=",".join(NODES))
        text += "".join(_NODE.format(name=name, host=host, port=free_port()) for name in NODES)
        (folder / "slurm.conf").write_text(text)
        files = {"socket": "socket", "key-file": "key", "log-file": "log", "pid-file": "pid", "seed-file": "seed"}
        self._run("munged", "-F", *(f"--{flag}={folder}/munge/{name}" for flag, name in files.items()))
        wait_for((folder / "munge" / "socket").exists, "munged")
        self.start_controller()
        for name in NODES:
            self._run("slurmd", "-D", "-N", name, as_name=name)
        wait_for(lambda: self.ask("sinfo", "--noheader", "--format=%D %T").split() == ["3", "idle"], "three idle nodes")

    def start_controller(self) -> None:
        self._run("slurmctld", "-D")

    def stop_controller(self) -> None:
        self.daemons["slurmctld"].terminate()
        self.daemons["slurmctld"].wait(20)

    def stop(self) -> None:
        self.end_jobs()
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
        for daemon in self.daemons.values():
            daemon.wait(20)

    def end_jobs(self) -> None:
        self.ask("scancel", "--me", "--signal=KILL", "--full")
        self.ask("scancel", "--me")
        wait_for(lambda: not self.ask("squeue", "--me", "--noheader"), "all jobs to be gone")

    def ask(self, *command: str) -> str:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

    def _run(self, name: str, *flags: str, as_name: str = "") -> None:
        with (self.folder / f"{as_name or name}.out").open("a") as out:
            self.daemons[as_name or name] = subprocess.Popen([find(name), *flags], stdout=out, stderr=out)


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A Slurm with three idle nodes."""
    folder = Path(tempfile.mkdtemp(prefix="zl-"))
    # munged wants its socket to be reachable for everybody.
    folder.chmod(0o711)
    made, before = Cluster(folder), os.environ.get("SLURM_CONF")
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    try:
        made.start()
        yield made
    finally:
        made.stop()
        os.environ.pop("SLURM_CONF")
        if before is not None:
            os.environ["SLURM_CONF"] = before
        shutil.rmtree(folder, ignore_errors=True)
