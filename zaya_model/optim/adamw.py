"""AdamW (Loshchilov and Hutter 2019) by torch's fused kernel."""

import torch

from zaya_model.optim.optimizer import Gradients, Group, Optimizer


class AdamW(Optimizer):
    """Move all pieces of a group in one launch."""

    def __init__(self, groups: list[Group], *, rate: float, betas: tuple[float, float], eps: float) -> None:
        super().__init__(groups, rate=rate)
        self.betas, self.eps = betas, eps

    @torch.no_grad()
    def step(self, gradients: Gradients) -> None:
        """Move every piece that has a gradient."""
        for group, pieces, values, own in self._moved(gradients):
            steps = self._states(pieces, "step", is_scalar=True)
            torch._foreach_add_(steps, 1)
            torch._fused_adamw_(
                values, own, self._states(pieces, "first"), self._states(pieces, "second"), [], steps,
                lr=self.rate, beta1=self.betas[0], beta2=self.betas[1], weight_decay=group.weight_decay, eps=self.eps,
                amsgrad=False, maximize=False,
            )  # fmt: skip
