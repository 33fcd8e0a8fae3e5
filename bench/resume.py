"""From nothing to the first step of a resumed run, by part: 100 M parameters, 0.85 GB of state, page cache warm."""

import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench._rows import row

_OVERRIDES = {
    "train.global_batch_size": 1, "train.micro_batch_size": 1, "data.sequence_length": 64, "train.precision": "fp32",
    "checkpoint.verify": False,
}  # fmt: skip


def measure() -> list[dict]:
    """Seconds of each part in a fresh process, beside all of them."""
    with TemporaryDirectory(prefix="zbench-", dir=".") as folder:
        for part in ("save", "resume"):
            command = [sys.executable, "-m", "bench.resume", part, folder]
            out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=600).stdout
    seconds: dict[str, float] = json.loads(out.splitlines()[-1])
    whole = sum(seconds.values())
    return [row(f"resume: {part}", value, "s", "all parts", whole) for part, value in seconds.items()]


def save(run_dir: Path) -> None:
    """One step, then its checkpoint."""
    from bench._training import Training
    from zaya_model.checkpoint.save import Saver

    run = Training(run_dir / "data", _OVERRIDES, preset="zaya1-100m")
    run.step()
    saver = Saver(run_dir, run.config, lambda *_, **__: None)
    saver.save(1, run.state.tensors())
    saver.wait()


def resume(run_dir: Path) -> dict[str, float]:
    """What a start does, in its order."""
    seconds, begin = {}, time.perf_counter()

    def lap(part: str) -> None:
        nonlocal begin
        begin, seconds[part] = time.perf_counter(), time.perf_counter() - begin

    from bench._training import Training
    from zaya_model.checkpoint.restore import find_checkpoint, read_tensors

    lap("load torch and the trainer")
    run = Training(run_dir / "data", _OVERRIDES, preset="zaya1-100m")
    lap("open the data, draw the first weights")
    found = find_checkpoint(run_dir)
    lap("read the newest checkpoint from disk and compare checksums")
    run.state.load(read_tensors(found.folder, found.manifest))
    lap("take over its tensors")
    run.step()
    lap("first step")
    return seconds


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](Path(sys.argv[2]))))
