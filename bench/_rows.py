"""A figure as a row of the table: what was measured, beside what it is to be compared with."""

import statistics
from collections.abc import Sequence
from typing import Any


def row(name: str, value: float, unit: str, peer: str, peer_value: float | None) -> dict[str, Any]:
    """A figure and its peer, a physical limit or a goal; no ratio where the peer could not be measured, or is 0."""
    ratio = value / peer_value if peer_value else None
    return {"name": name, "value": value, "unit": unit, "peer": peer, "peer_value": peer_value, "ratio": ratio}


def p95(values: Sequence[float]) -> float:
    """95th percentile."""
    return statistics.quantiles(values, n=20)[-1]
