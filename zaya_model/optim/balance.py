"""The router's balancing bias: AdamW with the load's excess over the fair share as its gradient.

Source: arXiv 2605.05365 eq. 5.

Shapes: L blocks, E experts; classes are the experts and, last, the skip class.
"""

import torch
from torch import Tensor

from zaya_model.config import BalanceConfig


class Balancer:
    """Move the biases of all blocks once a step, by the loads of the global batch."""

    def __init__(self, biases: list[Tensor], config: BalanceConfig) -> None:
        self.biases = biases
        self.config = config
        self.first = torch.zeros(len(biases), biases[0].numel(), device=biases[0].device)
        self.second = torch.zeros_like(self.first)
        self.steps = 0

    @torch.no_grad()
    def step(self, counts_LE: Tensor, rate_share: float = 1.0) -> None:
        """Follow the tokens of each class (L, E + 1); an overused class loses bias.

        `rate_share` scales the rate. With the schedule's share of the learning rate the bias warms up with the router:
        at first all probabilities are nearly equal, and a full step would send every token to one expert.
        """
        if not self.config.enabled:
            return
        counted = counts_LE.float()
        if not self.config.include_skip:
            counted = counted[:, :-1]
        share = counted / counted.sum(dim=1, keepdim=True).clamp_min(1)
        gradient = torch.zeros_like(self.first)
        gradient[:, : share.shape[1]] = share - 1 / share.shape[1]
        self.steps += 1
        beta1, beta2 = self.config.beta1, self.config.beta2
        self.first.lerp_(gradient, 1 - beta1)
        self.second.lerp_(gradient.square(), 1 - beta2)
        mean = self.first / (1 - beta1**self.steps)
        scale = (self.second / (1 - beta2**self.steps)).sqrt() + 1e-8
        for bias, move in zip(self.biases, mean / scale, strict=True):
            bias.sub_(move, alpha=self.config.learning_rate * rate_share)

    def state_dict(self) -> dict[str, Tensor]:
        """All that a resumed run needs; the biases themselves are the model's buffers."""
        return {"first": self.first, "second": self.second, "steps": torch.tensor(self.steps)}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Go on from `state_dict`."""
        self.first.copy_(state["first"])
        self.second.copy_(state["second"])
        self.steps = int(state["steps"])
