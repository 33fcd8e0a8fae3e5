"""Orthogonalised momentum for matrices (Jordan et al. 2024), its update scaled to AdamW's (arXiv 2502.16982 §2.2)."""

from collections import defaultdict
from dataclasses import dataclass

import torch
from torch import Tensor

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ADAMW_RMS = 0.2


def orthogonalise(matrices: Tensor, *, iterations: int = 5) -> Tensor:
    """Nearly the nearest semi-orthogonal matrix of each of a stack (K, m, n), by the quintic Newton-Schulz iteration.

    The singular values end between about 0.7 and 1.2, which is what Muon wants: fast, not exact.
    """
    a, b, c = _COEFFICIENTS
    x = matrices.bfloat16() if matrices.is_cuda else matrices
    if is_tall := x.shape[-2] > x.shape[-1]:
        # Batched products of a transposed view are half as fast on a CPU.
        x = x.mT.contiguous()
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp_min(1e-7)
    for _ in range(iterations):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if is_tall else x).to(matrices.dtype)


@dataclass(frozen=True)
class Matrices:
    """A parameter as the matrices (K, m, n) that are orthogonalised each on its own."""

    parameter: Tensor
    fused: int

    @property
    def shape(self) -> tuple[int, int]:
        """m and n of each."""
        rows, columns = self.parameter.shape[-2:]
        return rows // self.fused, columns

    def view(self, tensor: Tensor) -> Tensor:
        """A tensor of the parameter's shape as the stack."""
        return tensor.view(-1, *self.shape)


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised.

    The last two axes are the matrix, an axis before them is a stack of experts. A group's `fused` says how many
    matrices lie one above the other in each, as gate and up do in the experts.
    """

    def __init__(self, groups: list[dict[str, object]], *, lr: float, momentum: float, weight_decay: float) -> None:
        super().__init__(groups, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "fused": 1})

    @torch.no_grad()
    def step(self) -> None:
        """Move every matrix once; same-shaped ones of all groups are orthogonalised together."""
        by_shape: dict[tuple[int, int], list[Matrices]] = defaultdict(list)
        updates: dict[Tensor, Tensor] = {}
        for group in self.param_groups:
            moved = [parameter for parameter in group["params"] if parameter.grad is not None]
            updates |= zip(moved, self._momentum(moved, group["momentum"]), strict=True)
            torch._foreach_mul_(moved, 1 - group["lr"] * group["weight_decay"])
            for parameter in moved:
                matrices = Matrices(parameter, group["fused"])
                by_shape[matrices.shape].append(matrices)
        rate = self.param_groups[0]["lr"]
        for shape, stacks in by_shape.items():
            whole = orthogonalise(torch.cat([stack.view(updates[stack.parameter]) for stack in stacks]))
            parts = whole.split([stack.parameter.numel() // (shape[0] * shape[1]) for stack in stacks])
            targets = [stack.view(stack.parameter) for stack in stacks]
            torch._foreach_add_(targets, parts, alpha=-rate * _ADAMW_RMS * max(shape) ** 0.5)

    def _momentum(self, parameters: list[Tensor], momentum: float) -> list[Tensor]:
        """Fold the gradients in; returns Nesterov's look-ahead of each."""
        for parameter in parameters:
            if not self.state[parameter]:
                self.state[parameter]["momentum"] = torch.zeros_like(parameter)
        buffers = [self.state[parameter]["momentum"] for parameter in parameters]
        gradients = [parameter.grad for parameter in parameters]
        torch._foreach_lerp_(buffers, gradients, 1 - momentum)
        return torch._foreach_lerp(gradients, buffers, momentum)
