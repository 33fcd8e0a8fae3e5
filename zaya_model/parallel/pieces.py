"""Parameters cut into pieces, and each piece given to the rank that keeps its optimiser's state.

A piece is a run of whole rows of one parameter, along its first axis: experts of a stack, rows of an embedding.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, TypeVar

import torch
from torch import Tensor

# A smaller piece is not worth a message of its own.
_LEAST_VALUES = 1024
_ROWS = re.compile(r"\[(\d+):\d+\]")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows `start` to `stop` of a parameter, as a view: what moves the one moves the other."""

    parameter_name: str
    parameter: Tensor
    start: int
    stop: int

    @property
    def is_whole(self) -> bool:
        """Whether it is all of its parameter."""
        return self.stop - self.start == len(self.parameter)

    @property
    def name(self) -> str:
        """The parameter's name, with the rows where it is not all of it: `blocks.0.experts.down_proj[2:4]`."""
        return self.parameter_name if self.is_whole else f"{self.parameter_name}[{self.start}:{self.stop}]"

    def values(self) -> Tensor:
        """The rows themselves, without a gradient's history."""
        return self.parameter.detach()[self.start : self.stop]


class Shards(Protocol):
    """Which pieces are this rank's, and the ways of gradients to them and of moved values from them."""

    is_sharded: bool  # whether no two ranks move the same pieces
    mine: list[Piece]
    weights: Sequence[Piece] = ()  # those of which no other rank has the values

    def collect(self) -> dict[Piece, Tensor]:
        """The gradient of each of `mine`, summed over all ranks."""

    def sum_over_pieces(self, figures: Tensor) -> Tensor:
        """Figures over all pieces from those over `mine`."""

    def publish(self) -> None:
        """Send the moved pieces to whoever needs them; `settle` says when they have arrived."""

    def settle(self) -> None:
        """Wait until the weights are those of this step everywhere: before anybody reads them."""

    def placed(self, saved: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Whole weights as the model's own lie."""
        return dict(saved)


def whole(name: str, parameter: Tensor) -> Piece:
    """A parameter in one piece."""
    return Piece(name, parameter, 0, len(parameter))


def cut(name: str, parameter: Tensor, most: int) -> list[Piece]:
    """Cut a parameter into at most `most` nearly equal runs of rows."""
    row = parameter[0].numel()
    count = max(1, min(most, len(parameter), parameter.numel() // max(_LEAST_VALUES, row)))
    bounds = [len(parameter) * index // count for index in range(count + 1)]
    return [Piece(name, parameter, start, stop) for start, stop in pairwise(bounds)]


def share_out(items: Iterable[T], cost: Callable[[T], float], ranks: int) -> list[list[T]]:
    """The items of each rank: the dearest first, each to the rank with the least so far; the same on every rank."""
    shares: list[list[T]] = [[] for _ in range(ranks)]
    loads = [0.0] * ranks
    for item in sorted(items, key=cost, reverse=True):
        lightest = loads.index(min(loads))
        loads[lightest] += cost(item)
        shares[lightest].append(item)
    return shares


def put_together(items: Iterable[T], size: Callable[[T], int], enough: int) -> Iterator[list[T]]:
    """Items in a row that have `enough` together, so that they travel as one message."""
    group: list[T] = []
    total = 0
    for item in items:
        group.append(item)
        total += size(item)
        if total >= enough:
            yield group
            group, total = [], 0
    if group:
        yield group


def join(saved: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Whole tensors from pieces: `{"model/name[0:2]": rows, …}` to `{"model/name": whole}`."""
    parts: dict[str, list[tuple[int, Tensor]]] = {}
    for path, tensor in saved.items():
        rows = _ROWS.search(path)
        parts.setdefault(_ROWS.sub("", path), []).append((int(rows[1]) if rows else 0, tensor))
    return {name: _joined(own) for name, own in parts.items()}


def _joined(parts: list[tuple[int, Tensor]]) -> Tensor:
    tensors = [tensor for _, tensor in sorted(parts, key=lambda part: part[0])]
    # A count of steps is the same for all pieces.
    return tensors[0] if len(tensors) == 1 or tensors[0].ndim == 0 else torch.cat(tensors)
