"""Compressed convolutional attention: projections, two causal convolutions, q-k mean, value shift, RoPE.

Source: arXiv 2510.04476 §II-B, with the linear key temperature of arXiv 2605.05365 appendix C.

Shapes: B batch, S sequence, D hidden, H query heads, K key-value heads, g = H/K, d head width,
G = H + K convolution groups, C = G·d convolution channels, P = (T₀-1) + (T₁-1) tokens looked back.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from zaya_model.config import ModelConfig
from zaya_model.model.layers import Rotary


@dataclass
class Past:
    """What attention needs of earlier tokens: for decoding, or from the left neighbour of a split sequence."""

    latent: Tensor  # (B, P, C) queries and keys before the convolutions
    delayed: Tensor  # (B, 1, K·d/2) delayed values of the last token
    keys: Tensor  # (B, K, T, d)
    values: Tensor  # (B, K, T, d)


class ConvolutionWeights(nn.Module):
    """Weight and bias of one causal convolution, in the layout of torch's Conv1d."""

    def __init__(self, channels: int, per_group: int, taps: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels, per_group, taps))
        self.bias = nn.Parameter(torch.zeros(channels))


class Attention(nn.Module):
    """Causal attention over convolved, normalised, compressed queries and keys."""

    def __init__(self, config: ModelConfig, *, is_sliding: bool) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = (
            config.num_attention_heads, config.num_key_value_heads, config.head_dim,
        )  # fmt: skip
        self.window = config.sliding_window if is_sliding else None
        self.taps = (config.cca_time0, config.cca_time1)
        width_q, width_k = self.heads * self.head_dim, self.kv_heads * self.head_dim
        channels, bias = width_q + width_k, config.attention_bias
        self.q_proj = nn.Linear(config.hidden_size, width_q, bias=bias)
        self.k_proj = nn.Linear(config.hidden_size, width_k, bias=bias)
        self.v_proj_current = nn.Linear(config.hidden_size, width_k // 2, bias=bias)
        self.v_proj_delayed = nn.Linear(config.hidden_size, width_k // 2, bias=bias)
        self.conv_depthwise = ConvolutionWeights(channels, 1, self.taps[0])
        self.conv_grouped = ConvolutionWeights(channels, self.head_dim, self.taps[1])
        self.temperature = nn.Parameter(torch.full((self.kv_heads,), config.key_temperature))
        self.o_proj = nn.Linear(width_q, config.hidden_size, bias=bias)
        theta = config.sliding_rope_theta if is_sliding else config.rope_theta
        self.rotary = Rotary(int(self.head_dim * config.partial_rotary_factor), theta)

    def forward(
        self, x_BSD: Tensor, token_mask_BS: Tensor | None = None, past: Past | None = None
    ) -> tuple[Tensor, Past]:
        """Attend; returns the output (B, S, D) and what a later token needs. `token_mask` is 1 for real tokens."""
        if token_mask_BS is not None and x_BSD.shape[1] > 1:
            x_BSD = x_BSD * token_mask_BS[:, :, None]
        latent = torch.cat((self.q_proj(x_BSD), self.k_proj(x_BSD)), dim=-1)
        q, k, latent_seen = self._mix(latent, past)
        v, delayed = self._values(x_BSD, past)
        start = past.keys.shape[2] if past else 0
        cos, sin = self.rotary.tables(torch.arange(start, start + x_BSD.shape[1], device=x_BSD.device))
        q = self.rotary(self._unit(q), cos, sin).to(v.dtype)
        k = self.rotary(self._unit(k) * self.temperature[:, None, None], cos, sin).to(v.dtype)
        if past:
            k, v = torch.cat((past.keys, k), dim=2), torch.cat((past.values, v), dim=2)
        out = self._attend(q, k, v, token_mask_BS)
        lookback = sum(self.taps) - 2
        seen = Past(latent_seen[:, latent_seen.shape[1] - lookback :], delayed[:, -1:], k, v)
        return self.o_proj(out.transpose(1, 2).flatten(2)), seen

    def _mix(self, latent_BSC: Tensor, past: Past | None) -> tuple[Tensor, Tensor, Tensor]:
        """Convolve queries and keys over time and add their means; (B, H, S, d), (B, K, S, d)."""
        B, S, C = latent_BSC.shape
        lookback = sum(self.taps) - 2
        # Zeros are put once, left of both convolutions: before the text the first one gives its bias, not 0.
        before = past.latent if past else latent_BSC.new_zeros(B, lookback, C)
        padded = torch.cat((before, latent_BSC), dim=1) if lookback else latent_BSC
        once = self._depthwise(padded).view(B, -1, C // self.head_dim, self.head_dim)
        both = self._grouped(once, S)
        q0, k0 = latent_BSC.view(B, S, -1, self.head_dim).split((self.heads, self.kv_heads), dim=2)
        q0 = q0.unflatten(2, (self.kv_heads, -1))
        mean_q = (q0 + k0[:, :, :, None]) * 0.5
        mean_k = mean_q.mean(dim=3)
        mixed = both + torch.cat((mean_q.flatten(2, 3), mean_k), dim=2)
        q, k = mixed.transpose(1, 2).split((self.heads, self.kv_heads), dim=1)
        return q, k, padded

    def _depthwise(self, padded: Tensor) -> Tensor:
        taps, length = self.taps[0], padded.shape[1] - self.taps[0] + 1
        weight = self.conv_depthwise.weight[:, 0]
        out = torch.addcmul(self.conv_depthwise.bias, padded[:, :length], weight[:, 0])
        for tap in range(1, taps):
            out = torch.addcmul(out, padded[:, tap : tap + length], weight[:, tap])
        return out

    def _grouped(self, once_BTGd: Tensor, length: int) -> Tensor:
        """The per-head convolution as one batched product over its taps; (B, S, G, d)."""
        B, _, G, d = once_BTGd.shape
        taps = self.taps[1]
        windows = torch.cat([once_BTGd[:, tap : tap + length] for tap in range(taps)], dim=-1)
        weight = self.conv_grouped.weight.view(G, d, d, taps).permute(0, 3, 2, 1).reshape(G, taps * d, d)
        rows = windows.permute(2, 0, 1, 3).reshape(G, B * length, taps * d)
        out = torch.baddbmm(self.conv_grouped.bias.view(G, 1, d), rows, weight)
        return out.view(G, B, length, d).permute(1, 2, 0, 3)

    def _values(self, x_BSD: Tensor, past: Past | None) -> tuple[Tensor, Tensor]:
        """Half of the values from this token, half from the one before; (B, K, S, d)."""
        current, delayed = self.v_proj_current(x_BSD), self.v_proj_delayed(x_BSD)
        if past:
            before = past.delayed
        elif self.v_proj_delayed.bias is not None:
            before = self.v_proj_delayed.bias.to(delayed.dtype).expand(delayed.shape[0], 1, -1)
        else:
            before = torch.zeros_like(delayed[:, :1])
        v = torch.cat((current, torch.cat((before, delayed[:, :-1]), dim=1)), dim=-1)
        return v.unflatten(2, (self.kv_heads, self.head_dim)).transpose(1, 2), delayed

    def _unit(self, x_BHSd: Tensor) -> Tensor:
        """Scale each head to length √d, in fp32."""
        x = x_BHSd.float()
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x * (math.sqrt(self.head_dim) / length.clamp_min(torch.finfo(torch.float32).eps))

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, token_mask_BS: Tensor | None) -> Tensor:
        grouped = self.heads != self.kv_heads
        S, T = q.shape[2], k.shape[2]
        if T == 1:
            # The formula as it stands: its gradients are exactly 0, a fused kernel's are rounding errors.
            k, v = (x.repeat_interleave(self.heads // self.kv_heads, dim=1) for x in (k, v))
            return (q * k).sum(dim=-1, keepdim=True).softmax(dim=-1) * v
        if token_mask_BS is None and self.window is None and S in (1, T):
            return F.scaled_dot_product_attention(q, k, v, is_causal=S > 1, enable_gqa=grouped)
        sees = torch.ones(S, T, dtype=torch.bool, device=q.device).tril(T - S)
        if self.window is not None:
            sees = sees.triu(T - S - self.window + 1)
        sees = sees[None]
        if token_mask_BS is not None:
            sees = sees & token_mask_BS[:, None, :].bool()
        # Lowest finite number instead of -∞: a padding token that sees nothing averages, and gives no NaN.
        mask = torch.zeros_like(sees, dtype=q.dtype).masked_fill(~sees, torch.finfo(q.dtype).min)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None], enable_gqa=grouped)
