"""One block: norm, attention, residual merge, norm, experts, residual merge.

Shapes: B batch, S sequence, D hidden, N = B·S tokens, R router width.
"""

from torch import Tensor, nn

from zaya_model.config import ModelConfig
from zaya_model.model.attention import Attention, Past
from zaya_model.model.experts import Experts
from zaya_model.model.layers import ResidualScale, RMSNorm
from zaya_model.model.router import Router


class Block(nn.Module):
    """Attention and experts, each on the normed stream and merged back into it with learned scales."""

    def __init__(self, config: ModelConfig, *, is_first: bool, is_sliding: bool) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.attention = Attention(config, is_sliding=is_sliding)
        self.attention_residual = ResidualScale(config.hidden_size)
        self.experts_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.router = Router(config, is_first=is_first)
        self.experts = Experts(config)
        self.experts_residual = ResidualScale(config.hidden_size)

    def forward(
        self, h_BSD: Tensor, state_NR: Tensor | None, token_mask_BS: Tensor | None = None, past: Past | None = None
    ) -> tuple[Tensor, Tensor | None, Past]:
        """Returns the stream, the router's state for the next block, and what later tokens need of this one."""
        mixed, seen = self.attention(self.attention_norm(h_BSD), token_mask_BS, past)
        h_BSD = self.attention_residual(mixed, h_BSD)
        x_ND = self.experts_norm(h_BSD).flatten(0, 1)
        mask_N = None if token_mask_BS is None else token_mask_BS.flatten()
        choice, weight, state_NR = self.router(x_ND, state_NR, mask_N)
        mixed = self.experts(x_ND, choice, weight).view_as(h_BSD)
        return self.experts_residual(mixed, h_BSD), state_NR, seen
