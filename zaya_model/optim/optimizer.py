"""What Muon and AdamW share: groups of pieces, one learning rate, tensors of state.

torch's own base class loads its compiler, over a second before the first step, for hooks that nobody here needs.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from zaya_model.parallel.pieces import Piece

Gradients = Mapping[Piece, Tensor]


@dataclass(frozen=True)
class Group:
    """Pieces that are treated alike; `fused` matrices lie one above the other in each of them."""

    pieces: list[Piece]
    weight_decay: float = 0.0
    fused: int = 1


class Optimizer:
    """Groups and their state; a subclass moves one group at a time."""

    def __init__(self, groups: list[Group], *, rate: float) -> None:
        self.groups, self.rate = groups, rate
        self.state: dict[Piece, dict[str, Tensor]] = {}

    def tensors(self) -> dict[str, Tensor]:
        """Its state, `{"piece/key": tensor}`."""
        return {f"{piece.name}/{key}": value for piece, own in self.state.items() for key, value in own.items()}

    def load(self, saved: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take over the state of whole parameters, `{"name": {"key": tensor}}`: of each, the rows of its own pieces."""
        for piece in (piece for group in self.groups for piece in group.pieces):
            device, rows = piece.parameter.device, slice(piece.start, piece.stop)
            self.state[piece] = {
                key: (value[rows] if value.ndim else value).to(device, copy=True)
                for key, value in saved.get(piece.parameter_name, {}).items()
            }

    def _moved(self, gradients: Gradients) -> Iterator[tuple[Group, list[Piece], list[Tensor], list[Tensor]]]:
        """Each group, those of its pieces that have a gradient, their values and gradients."""
        for group in self.groups:
            if pieces := [piece for piece in group.pieces if piece in gradients]:
                yield group, pieces, [piece.values() for piece in pieces], [gradients[piece] for piece in pieces]

    def _states(self, pieces: list[Piece], name: str, *, is_scalar: bool = False) -> list[Tensor]:
        """One state tensor of each piece, zero at first."""
        found = []
        for piece in pieces:
            own = self.state.setdefault(piece, {})
            if name not in own:
                shape = () if is_scalar else piece.values().shape
                own[name] = torch.zeros(shape, dtype=torch.float32, device=piece.parameter.device)
            found.append(own[name])
        return found
