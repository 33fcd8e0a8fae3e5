"""Orthogonalised momentum for matrices (Jordan et al. 2024), its update scaled to AdamW's (arXiv 2502.16982 §2.2)."""

from collections import defaultdict

import torch
from torch import Tensor

from zaya_model.optim.optimizer import Gradients, Group, Optimizer

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


class Muon(Optimizer):
    """Nesterov momentum, orthogonalised.

    The last two axes are the matrix, an axis before them is a stack of experts. A group's `fused` says how many
    matrices lie one above the other in each, as gate and up do in the experts.
    """

    def __init__(self, groups: list[Group], *, rate: float, momentum: float) -> None:
        super().__init__(groups, rate=rate)
        self.momentum = momentum

    @torch.no_grad()
    def step(self, gradients: Gradients) -> None:
        """Move every matrix once; same-shaped ones of all groups are orthogonalised together."""
        by_shape: dict[tuple[int, int], list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for group, pieces, values, own in self._moved(gradients):
            buffers = self._states(pieces, "momentum")
            torch._foreach_lerp_(buffers, own, 1 - self.momentum)
            ahead = torch._foreach_lerp(own, buffers, self.momentum)
            torch._foreach_mul_(values, 1 - self.rate * group.weight_decay)
            for value, update in zip(values, ahead, strict=True):
                shape = (value.shape[-2] // group.fused, value.shape[-1])
                stacks = value.view(-1, *shape), update.view(-1, *shape)
                # A tall matrix lies down beside the wide ones of its shape: fewer and larger products.
                lying = stacks if shape[0] <= shape[1] else (stacks[0].mT, stacks[1].mT)
                by_shape[min(shape), max(shape)].append(lying)
        for shape, pairs in by_shape.items():
            targets, updates = zip(*pairs, strict=True)
            whole = orthogonalise(torch.cat(updates)).split([len(target) for target in targets])
            torch._foreach_add_(targets, whole, alpha=-self.rate * _ADAMW_RMS * shape[1] ** 0.5)
