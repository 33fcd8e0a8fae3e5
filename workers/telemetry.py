"""What hardware this node has, read without loading torch."""

from pathlib import Path

_AMD_TOPOLOGY = Path("/sys/class/kfd/kfd/topology/nodes")
_NVIDIA = Path("/proc/driver/nvidia/gpus")
_GFX_NAMES = {"gfx942": "AMD Instinct MI300X", "gfx950": "AMD Instinct MI355X", "gfx90a": "AMD Instinct MI250X"}


def find_gpus() -> list[str]:
    """Names of the GPUs, empty where there is none or its driver says nothing."""
    return _amd_gpus() or _nvidia_gpus()


def _amd_gpus() -> list[str]:
    """The kernel driver's list; CPUs stand in it too, with no vector units."""
    names = []
    for node in sorted(_AMD_TOPOLOGY.glob("*/properties")):
        try:
            lines = (line.split(maxsplit=1) for line in node.read_text().splitlines())
            facts = {pair[0]: pair[1] for pair in lines if len(pair) == 2}
        except OSError:
            continue
        if int(facts.get("simd_count", "0")) > 0:
            names.append(_gfx_name(int(facts.get("gfx_target_version", "0"))))
    return names


def _gfx_name(version: int) -> str:
    """90402 is gfx942: major, minor and stepping in two digits each, the last ones hexadecimal."""
    gfx = f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"
    return _GFX_NAMES.get(gfx, f"AMD {gfx}")


def _nvidia_gpus() -> list[str]:
    names = []
    for card in sorted(_NVIDIA.glob("*/information")):
        try:
            lines = card.read_text().splitlines()
        except OSError:
            continue
        names += [line.split(":", 1)[1].strip() for line in lines if line.startswith("Model:")]
    return names
