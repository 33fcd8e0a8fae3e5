"""What Muon and AdamW share: groups of pieces, one learning rate, tensors of state.

torch's own base class loads its compiler, over a second before the first step, for hooks that nobody here needs.
"""

from collections import defaultdict
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

    def load(self, saved: Mapping[str, Tensor]) -> None:
        """Take over the state of whole parameters, `{"parameter/key": tensor}`: of each, the rows of its own pieces."""
        self.state = {piece: {} for group in self.groups for piece in group.pieces}
        by_parameter = defaultdict(list)
        for piece in self.state:
            by_parameter[piece.parameter_name].append(piece)
        for path, value in saved.items():
            name, key = path.rsplit("/", 1)
            for piece in by_parameter[name]:
                rows = value[piece.start : piece.stop] if value.ndim else value
                self.state[piece][key] = rows.to(piece.parameter.device, copy=True)

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
