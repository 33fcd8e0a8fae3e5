"""AdamW (Loshchilov and Hutter 2019) by torch's fused kernel."""

import torch

from zaya_model.optim.optimizer import Group, Optimizer


class AdamW(Optimizer):
    """Move every parameter in one launch a group."""

    def __init__(self, groups: list[Group], *, rate: float, betas: tuple[float, float], eps: float) -> None:
        super().__init__(groups, rate=rate)
        self.betas, self.eps = betas, eps

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        for group, parameters, gradients in self._with_gradient():
            steps = self._states(parameters, "step", is_scalar=True)
            torch._foreach_add_(steps, 1)
            torch._fused_adamw_(
                parameters, gradients, self._states(parameters, "first"), self._states(parameters, "second"), [], steps,
                lr=self.rate, beta1=self.betas[0], beta2=self.betas[1], weight_decay=group.weight_decay, eps=self.eps,
                amsgrad=False, maximize=False,
            )  # fmt: skip
