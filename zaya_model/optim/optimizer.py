"""What Muon and AdamW share: groups of parameters, one learning rate, tensors of state.

torch's own base class loads its compiler, over a second before the first step, for hooks that nobody here needs.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Group:
    """Parameters that are treated alike; `fused` matrices lie one above the other in each of them."""

    parameters: list[Tensor]
    weight_decay: float = 0.0
    fused: int = 1


class Optimizer:
    """Groups and their state; a subclass moves one group at a time."""

    def __init__(self, groups: list[Group], *, rate: float) -> None:
        self.groups, self.rate = groups, rate
        self.state: dict[Tensor, dict[str, Tensor]] = {}

    @property
    def parameters(self) -> list[Tensor]:
        """All parameters it moves."""
        return [parameter for group in self.groups for parameter in group.parameters]

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    def _with_gradient(self) -> Iterator[tuple[Group, list[Tensor], list[Tensor]]]:
        """Each group, those of its parameters that have a gradient, and the gradients."""
        for group in self.groups:
            moved = [parameter for parameter in group.parameters if parameter.grad is not None]
            if moved:
                yield group, moved, [parameter.grad for parameter in moved]

    def _states(self, parameters: list[Tensor], name: str, *, is_scalar: bool = False) -> list[Tensor]:
        """One state tensor of each parameter, zero at first."""
        found = []
        for parameter in parameters:
            own = self.state.setdefault(parameter, {})
            if name not in own:
                shape = () if is_scalar else parameter.shape
                own[name] = torch.zeros(shape, dtype=torch.float32, device=parameter.device)
            found.append(own[name])
        return found
