"""What a checkpoint contains. The manifest is written last and atomically, so a checkpoint exists or it does not."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import xxhash

from zaya_model.errors import CheckpointError

NAME = "manifest.json"
_BLOCK = 1 << 20


@dataclass(frozen=True)
class File:
    """One file of a checkpoint as it must be found again."""

    name: str
    bytes: int
    xxh3: str


@dataclass(frozen=True)
class Manifest:
    """The step, the config and every file of a checkpoint."""

    step: int
    config: dict[str, Any]
    files: list[File]
    metrics: dict[str, float] = field(default_factory=dict)  # measured at this very step
    version: int = 1

    @property
    def bytes(self) -> int:
        """Size of all files."""
        return sum(file.bytes for file in self.files)


def folder_of(run_dir: Path, step: int) -> Path:
    """The folder of one step's checkpoint."""
    return run_dir / "checkpoints" / f"step-{step:08d}"


def new_digest() -> xxhash.xxh3_128:
    """The checksum of files: finds what disks and networks do, at memory's own rate; no guard against forgery."""
    return xxhash.xxh3_128()


def describe(path: Path, *, from_disk: bool = False) -> File:
    """Read a file once for its size and checksum; `from_disk` asks the system to forget its own copy first."""
    digest, block = new_digest(), memoryview(bytearray(_BLOCK))
    with path.open("rb", buffering=0) as file:
        if from_disk and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        while size := file.readinto(block):
            digest.update(block[:size])
        return File(path.name, file.tell(), digest.hexdigest())


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Make the checkpoint exist: flush the manifest, then give it its name, then flush the folder."""
    replace_text(folder / NAME, json.dumps(asdict(manifest), indent=2))
    sync_folder(folder)


def replace_text(path: Path, text: str) -> None:
    """Put a file in place whole or not at all."""
    temporary = path.with_name(f"{path.name}.new")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read_manifest(folder: Path) -> Manifest:
    """Read a checkpoint's manifest. Raises CheckpointError when there is none that can be read."""
    try:
        values = json.loads((folder / NAME).read_text())
        return Manifest(**{**values, "files": [File(**file) for file in values["files"]]})
    except FileNotFoundError as error:
        raise CheckpointError(f"{folder.name} has no manifest, so it was never finished.") from error
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise CheckpointError(f"{folder.name}: its manifest cannot be read ({error}).") from error


def verify(folder: Path) -> Manifest:
    """Read every file back and compare. Raises CheckpointError naming the file that differs."""
    manifest = read_manifest(folder)
    for expected in manifest.files:
        try:
            found = describe(folder / expected.name, from_disk=True)
        except OSError as error:
            raise CheckpointError(f"{folder.name}: {expected.name} cannot be read ({error.strerror}).") from error
        if found.bytes != expected.bytes:
            raise CheckpointError(
                f"{folder.name}: {expected.name} has {found.bytes:,} bytes instead of {expected.bytes:,}."
            )
        if found.xxh3 != expected.xxh3:
            raise CheckpointError(f"{folder.name}: the content of {expected.name} differs from its checksum.")
    return manifest


def list_checkpoints(run_dir: Path) -> list[tuple[int, Path]]:
    """Step and folder of everything that looks like a checkpoint, newest first."""
    found = []
    for folder in (run_dir / "checkpoints").glob("step-*"):
        number = folder.name.removeprefix("step-")
        if number.isdecimal() and folder.is_dir():
            found.append((int(number), folder))
    return sorted(found, reverse=True)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
