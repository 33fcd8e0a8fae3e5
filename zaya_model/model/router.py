"""The router: a small MLP on a state averaged over depth, a skip class, the top choice, and its load counts.

Shapes: N tokens, D hidden, R router width, E experts; classes are the experts and, last, the skip class.
"""

import torch
from torch import Tensor, nn

from zaya_model.config import ModelConfig
from zaya_model.model.layers import RMSNorm, count_choices

SKIP_BIAS = -1.0


class Router(nn.Module):
    """Choose one class for each token by probability plus balancing bias; mix by the probability alone.

    Unbiased, un-renormalised weights keep the router's gradient alive with a single choice (arXiv 2605.05365 §II-C).
    """

    def __init__(self, config: ModelConfig, *, is_first: bool) -> None:
        super().__init__()
        classes, width = config.num_experts + 1, config.router_hidden_size
        self.is_linear = config.router == "linear"
        if self.is_linear:
            self.out_proj = nn.Linear(config.hidden_size, classes, bias=False)
        else:
            self.down_proj = nn.Linear(config.hidden_size, width)
            self.depth_scale = None if is_first else nn.Parameter(torch.ones(width))
            self.norm = RMSNorm(width, config.rms_norm_eps)
            self.fc1 = nn.Linear(width, width)
            self.fc2 = nn.Linear(width, width)
            self.out_proj = nn.Linear(width, classes, bias=False)
        self.register_buffer("balancing_bias", torch.zeros(classes))
        self.register_buffer("counts", torch.zeros(classes, dtype=torch.int64), persistent=False)
        self.is_counting = True

    def forward(
        self, x_ND: Tensor, state_NR: Tensor | None, token_mask_N: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Returns the chosen class (N,), its probability (N,) in fp32, and the state (N, R) for the next block."""
        logits, state_NR = self.logits(x_ND, state_NR)
        probabilities = logits.float().softmax(dim=-1)
        choice = (probabilities.detach() + self.balancing_bias).argmax(dim=-1)
        weight = probabilities.gather(1, choice[:, None]).squeeze(1)
        if self.training and self.is_counting:
            self.counts += count_choices(choice, self.counts.numel(), token_mask_N)
        return choice, weight, state_NR

    def logits(self, x_ND: Tensor, state_NR: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Class logits (N, E + 1) and the depth-averaged state."""
        if self.is_linear:
            return self.out_proj(x_ND), None
        state = self.down_proj(x_ND)
        if self.depth_scale is not None and state_NR is not None:
            state = torch.addcmul(state, state_NR, self.depth_scale.to(state.dtype))
        hidden = nn.functional.gelu(self.fc1(self.norm(state)))
        return self.out_proj(nn.functional.gelu(self.fc2(hidden))), state
