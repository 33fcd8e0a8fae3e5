"""The rate at which a folder takes and gives bytes."""

import os
import time
from pathlib import Path

from zaya_model.errors import ZayaError

_BLOCK = 8 << 20


def measure_storage_bytes(folder: Path, *, total_bytes: int = 256 << 20) -> dict[str, float]:
    """Bytes per second written until they are on disk, and read back without the system's own copy."""
    path, block = folder / f".bench-{os.getpid()}", os.urandom(_BLOCK)
    try:
        begin = time.perf_counter()
        with path.open("wb") as file:
            for _ in range(total_bytes // _BLOCK):
                file.write(block)
            file.flush()
            os.fsync(file.fileno())
        written = time.perf_counter() - begin
        with path.open("rb", buffering=0) as file:
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            begin = time.perf_counter()
            while file.read(_BLOCK):
                pass
            read = time.perf_counter() - begin
    except OSError as error:
        raise ZayaError(f"{folder} cannot be measured: {error.strerror}.") from error
    finally:
        path.unlink(missing_ok=True)
    return {"write": total_bytes / written, "read": total_bytes / read}
