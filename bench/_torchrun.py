"""A benchmark's module on several processes, one thread each."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory


def torchrun(module: str, ranks: int, *, timeout: float = 900.0) -> dict[str, float]:
    """Run a module with a folder on this disk as its argument; what its first process left there in found.json."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    with TemporaryDirectory(prefix="zbench-", dir=".") as folder:
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run([*command, "-m", module, folder], env=environment, check=True, timeout=timeout)
        return json.loads((Path(folder) / "found.json").read_text())
