"""Orthogonalised momentum for matrices (Jordan et al. 2024), its update scaled to AdamW's (arXiv 2502.16982 §2.2)."""

from collections import defaultdict

import torch
from torch import Tensor

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)
_ADAMW_RMS = 0.2


def orthogonalise(matrices: Tensor, *, iterations: int = 5) -> Tensor:
    """Nearest semi-orthogonal matrix of each of a stack (K, m, n), by the quintic Newton-Schulz iteration."""
    a, b, c = _COEFFICIENTS
    x = matrices.bfloat16() if matrices.is_cuda else matrices
    if is_tall := x.shape[-2] > x.shape[-1]:
        x = x.mT
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp_min(1e-7)
    for _ in range(iterations):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if is_tall else x).to(matrices.dtype)


class Muon(torch.optim.Optimizer):
    """Nesterov momentum, orthogonalised; the last two axes are the matrix, axes before them are a stack of experts."""

    def __init__(self, parameters: list[Tensor], *, lr: float, momentum: float, weight_decay: float) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self) -> None:
        """Move every matrix once; same-shaped ones are orthogonalised together."""
        for group in self.param_groups:
            by_shape: dict[tuple[int, ...], list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    by_shape[tuple(parameter.shape[-2:])].append(parameter)
            for shape, parameters in by_shape.items():
                self._move(parameters, shape, group)

    def _move(self, parameters: list[Tensor], shape: tuple[int, ...], group: dict) -> None:
        updates = torch.cat([self._momentum(parameter, group["momentum"]).view(-1, *shape) for parameter in parameters])
        updates = orthogonalise(updates)
        scale = _ADAMW_RMS * max(shape) ** 0.5
        sizes = [parameter.numel() // (shape[0] * shape[1]) for parameter in parameters]
        for parameter, update in zip(parameters, updates.split(sizes), strict=True):
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
            parameter.add_(update.view_as(parameter), alpha=-group["lr"] * scale)

    def _momentum(self, parameter: Tensor, momentum: float) -> Tensor:
        state = self.state[parameter]
        if not state:
            state["momentum"] = torch.zeros_like(parameter)
        buffer = state["momentum"].lerp_(parameter.grad, 1 - momentum)
        return parameter.grad.lerp(buffer, momentum)
