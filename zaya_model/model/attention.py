"""Compressed convolutional attention: projections, two causal convolutions, q-k mean, value shift, RoPE.

Source: arXiv 2510.04476 §II-B, with the linear key temperature of arXiv 2605.05365 appendix C.

Shapes: B batch, S sequence, T keys, D hidden, H query heads, K key-value heads, g = H/K, d head width,
G = H + K convolution groups, C = G·d convolution channels, T₀ and T₁ taps, P = (T₀-1) + (T₁-1) tokens looked back.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional as F

from zaya_model.config import ModelConfig
from zaya_model.model.causal import LONGEST, BlockedCausal
from zaya_model.model.layers import Rotary, product_dtype, rotate_

_SHORTEST = torch.finfo(torch.float32).eps


@dataclass
class Past:
    """What attention needs of earlier tokens: for decoding, or from the left neighbour of a split sequence."""

    length: int  # tokens before these
    latent: Tensor  # (B, P, C) queries and keys before the convolutions, in fp32
    delayed: Tensor  # (B, 1, K·d/2) delayed values of the last token
    keys: Tensor  # (B, K, T, d), no more than a sliding window still sees
    values: Tensor  # (B, K, T, d)
    token_mask: Tensor | None  # (B, T), 1 for real tokens


class SplitSequence(Protocol):
    """The other parts of a sequence whose tokens are split over processes."""

    start: int  # tokens before this part

    def from_left(self, last: Tensor) -> Tensor:
        """The left neighbour's `last`; zeros in the first part."""

    def up_to_here(self, own: Tensor) -> Tensor:
        """`own` (…, S, d) of all parts up to this one, joined along the tokens."""


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
        self.lookback = config.cca_time0 + config.cca_time1 - 2
        width_q, width_k = self.heads * self.head_dim, self.kv_heads * self.head_dim
        bias = config.attention_bias
        self.widths = (width_q + width_k, width_k // 2, width_k // 2)
        self.q_proj = nn.Linear(config.hidden_size, width_q, bias=bias)
        self.k_proj = nn.Linear(config.hidden_size, width_k, bias=bias)
        self.v_proj_current = nn.Linear(config.hidden_size, width_k // 2, bias=bias)
        self.v_proj_delayed = nn.Linear(config.hidden_size, width_k // 2, bias=bias)
        self.conv_depthwise = ConvolutionWeights(width_q + width_k, 1, config.cca_time0)
        self.conv_grouped = ConvolutionWeights(width_q + width_k, self.head_dim, config.cca_time1)
        self.temperature = nn.Parameter(torch.full((self.kv_heads,), config.key_temperature))
        self.o_proj = nn.Linear(width_q, config.hidden_size, bias=bias)
        self.rotary = Rotary(config, is_sliding=is_sliding)
        self.sequence: SplitSequence | None = None  # set where the sequence is split over processes

    def forward(
        self, x_BSD: Tensor, token_mask_BS: Tensor | None = None, past: Past | None = None
    ) -> tuple[Tensor, Past]:
        """Attend; returns the output (B, S, D) and what a later token needs. `token_mask` is 1 for real tokens."""
        S = x_BSD.shape[1]
        if token_mask_BS is not None and S > 1:
            x_BSD = x_BSD * token_mask_BS[:, :, None]
        latent, current, delayed = self._project(x_BSD)
        start, before, earlier = self._before(latent, delayed, past)
        v = self._shift(current, delayed, before)
        # Zeros are put once, left of both convolutions: before the text the first one gives its bias, not 0.
        latent = F.pad(latent, (0, 0, self.lookback, 0)) if earlier is None else torch.cat((earlier, latent), dim=1)
        mixed = Mix.apply(
            latent, self.conv_depthwise.weight, self.conv_depthwise.bias,
            self.conv_grouped.weight, self.conv_grouped.bias, self.kv_heads, product_dtype(x_BSD),
        )  # fmt: skip
        cos, sin = self.rotary.tables(start, S, x_BSD.device)
        q, k = UnitRotate.apply(mixed, self.temperature, cos, sin)
        q, k = q.to(v.dtype), k.to(v.dtype)
        mask = _join_masks(token_mask_BS, past, S)
        if past:
            k, v = torch.cat((past.keys, k), dim=2), torch.cat((past.values, v), dim=2)
        elif self.sequence is not None:
            k, v = self.sequence.up_to_here(torch.stack((k, v)))
        out = self._attend(q, k, v, mask)
        seen = Past(start + S, latent[:, S:], delayed[:, -1:], k, v, mask)
        return self.o_proj(out.transpose(1, 2).flatten(2)), self._forget(seen)

    def _project(self, x_BSD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Latent queries and keys (B, S, C) in fp32, current and delayed values (B, S, K·d/2), by one product."""
        parts = (self.q_proj, self.k_proj, self.v_proj_current, self.v_proj_delayed)
        bias = None if self.q_proj.bias is None else torch.cat([part.bias for part in parts])
        out = F.linear(x_BSD, torch.cat([part.weight for part in parts]), bias)
        latent, current, delayed = out.split(self.widths, dim=-1)
        return latent.float(), current, delayed

    def _before(self, latent: Tensor, delayed: Tensor, past: Past | None) -> tuple[int, Tensor, Tensor | None]:
        """Tokens before these, the last one's delayed value (B, 1, K·d/2), and the last latents (B, P, C) if any."""
        if past:
            return past.length, past.delayed, past.latent
        if self.v_proj_delayed.bias is not None:
            first = self.v_proj_delayed.bias.to(delayed.dtype).expand(delayed.shape[0], 1, -1)
        else:
            first = torch.zeros_like(delayed[:, :1])
        if self.sequence is None:
            return 0, first, None
        start = self.sequence.start
        # Nobody is left of the first tokens and zeros come: the sum keeps all ranks on the way back of the gradients.
        before = self.sequence.from_left(delayed[:, -1:])
        before = before if start else before + first
        if not self.lookback:
            return start, before, None
        return start, before, self.sequence.from_left(latent[:, -self.lookback :])

    def _shift(self, current: Tensor, delayed: Tensor, before: Tensor) -> Tensor:
        """Half of the values from this token, half from the one before; (B, K, S, d)."""
        v = torch.cat((current, torch.cat((before, delayed[:, :-1]), dim=1)), dim=-1)
        return v.unflatten(2, (self.kv_heads, self.head_dim)).transpose(1, 2)

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, mask_BT: Tensor | None) -> Tensor:
        grouped = self.heads != self.kv_heads
        S, T = q.shape[2], k.shape[2]
        if T == 1:
            # The formula as it stands: its gradients are exactly 0, a fused kernel's are rounding errors.
            k, v = (x.repeat_interleave(self.heads // self.kv_heads, dim=1) for x in (k, v))
            return (q * k).sum(dim=-1, keepdim=True).softmax(dim=-1) * v
        if mask_BT is None and self.window is None and S == T <= LONGEST and q.dtype == torch.float32 and not q.is_cuda:
            return BlockedCausal.apply(q, k, v)
        if mask_BT is None and self.window is None and S in (1, T):
            return F.scaled_dot_product_attention(q, k, v, is_causal=S > 1, enable_gqa=grouped)
        sees = torch.ones(S, T, dtype=torch.bool, device=q.device).tril(T - S)
        if self.window is not None:
            sees = sees.triu(T - S - self.window + 1)
        sees = sees[None]
        if mask_BT is not None:
            sees = sees & mask_BT[:, None, :].bool()
        # Lowest finite number instead of -∞: a padding token that sees nothing averages, and gives no NaN.
        mask = torch.zeros_like(sees, dtype=q.dtype).masked_fill(~sees, torch.finfo(q.dtype).min)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None], enable_gqa=grouped)

    def _forget(self, seen: Past) -> Past:
        """Drop the keys and values that no later token of a sliding block sees."""
        if self.window is not None and (extra := seen.keys.shape[2] - self.window + 1) > 0:
            seen.keys, seen.values = seen.keys[:, :, extra:], seen.values[:, :, extra:]
            seen.token_mask = None if seen.token_mask is None else seen.token_mask[:, extra:]
        return seen


def _join_masks(mask_BS: Tensor | None, past: Past | None, num_new: int) -> Tensor | None:
    """The mask of all keys (B, T), None where every token is real."""
    if past is None or (mask_BS is None and past.token_mask is None):
        return mask_BS
    size = past.keys.shape[0]
    before = past.keys.new_ones(size, past.keys.shape[2]) if past.token_mask is None else past.token_mask
    return torch.cat((before, before.new_ones(size, num_new) if mask_BS is None else mask_BS.to(before.dtype)), dim=1)


class Mix(torch.autograd.Function):
    """Both convolutions over time, and the means of the queries and keys that went in; (G, B, S, d) in fp32."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, latent: Tensor, weight0: Tensor, bias0: Tensor, weight1: Tensor, bias1: Tensor, kv_heads: int,
        dtype: torch.dtype,
    ) -> Tensor:  # fmt: skip
        C, d, taps1 = weight1.shape
        B, G, taps0 = latent.shape[0], C // d, weight0.shape[2]
        length = latent.shape[1] - taps0 + 1
        S = length - taps1 + 1
        once = torch.addcmul(bias0, latent[:, :length], weight0[:, 0, 0])
        for tap in range(1, taps0):
            once.addcmul_(latent[:, tap : tap + length], weight0[:, 0, tap])
        windows = once.view(B, length, G, d).unfold(1, taps1, 1).permute(2, 0, 1, 4, 3).reshape(G, B * S, taps1 * d)
        matrix = weight1.view(G, d, d, taps1).permute(0, 3, 2, 1).reshape(G, taps1 * d, d)
        windows, matrix = windows.to(dtype), matrix.to(dtype)
        mixed = torch.bmm(windows, matrix).to(latent.dtype).view(G, B, S, d).add_(bias1.view(G, 1, 1, d))
        q0, k0 = _heads(latent, S, G, kv_heads)
        q, k = _split(mixed, kv_heads)
        q.add_(q0, alpha=0.5).add_(k0[:, None], alpha=0.5)
        k.add_(k0, alpha=0.5).add_(q0.mean(dim=1), alpha=0.5)
        ctx.save_for_backward(latent, weight0, windows, matrix)
        ctx.sizes = (kv_heads, taps0, taps1, length)
        return mixed

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        latent, weight0, windows, matrix = ctx.saved_tensors
        kv_heads, taps0, taps1, length = ctx.sizes
        G, B, S, d = gradient.shape
        rows = gradient.view(G, B * S, d).to(matrix.dtype)
        d_matrix = (
            torch.bmm(windows.mT, rows)
            .to(latent.dtype)
            .view(G, taps1, d, d)
            .permute(0, 3, 2, 1)
            .reshape(G * d, d, taps1)
        )
        d_windows = torch.bmm(rows, matrix.mT).view(G, B, S, taps1, d).permute(3, 1, 2, 0, 4)
        d_once = latent.new_zeros(B, length, G, d)
        for tap in range(taps1):
            d_once[:, tap : tap + S] += d_windows[tap]
        d_once = d_once.view(B, length, G * d)
        d_latent, d_weight0 = torch.zeros_like(latent), torch.empty_like(weight0)
        for tap in range(taps0):
            d_latent[:, tap : tap + length].addcmul_(d_once, weight0[:, 0, tap])
            d_weight0[:, 0, tap] = (d_once * latent[:, tap : tap + length]).sum(dim=(0, 1))
        d_q0, d_k0 = _heads(d_latent, S, G, kv_heads)
        d_q, d_k = _split(gradient, kv_heads)
        d_q0.add_(d_q, alpha=0.5).add_(d_k[:, None], alpha=0.5 / d_q.shape[1])
        d_k0.add_(d_k, alpha=0.5).add_(d_q.sum(dim=1), alpha=0.5)
        return d_latent, d_weight0, d_once.sum(dim=(0, 1)), d_matrix, gradient.sum(dim=(1, 2)).view(-1), None, None


def _heads(latent: Tensor, num_tokens: int, groups: int, kv_heads: int) -> tuple[Tensor, Tensor]:
    """The queries (K, g, B, S, d) and keys (K, B, S, d) of the last tokens, as views."""
    tokens = latent[:, latent.shape[1] - num_tokens :].unflatten(2, (groups, -1))
    return _split(tokens.permute(2, 0, 1, 3), kv_heads)


def _split(x_GBSd: Tensor, kv_heads: int) -> tuple[Tensor, Tensor]:
    return x_GBSd[:-kv_heads].unflatten(0, (kv_heads, -1)), x_GBSd[-kv_heads:]


class UnitRotate(torch.autograd.Function):
    """Scale each head to length √d, keys by their temperature, and rotate; queries (B, H, S, d), keys (B, K, S, d)."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, mixed_GBSd: Tensor, temperature_K: Tensor, cos: Tensor, sin: Tensor
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        heads = mixed_GBSd.shape[0] - len(temperature_K)
        length = torch.linalg.vector_norm(mixed_GBSd, dim=-1, keepdim=True)
        scale = math.sqrt(mixed_GBSd.shape[-1]) / length.clamp_min(_SHORTEST)
        ctx.save_for_backward(mixed_GBSd, temperature_K, cos, sin, scale, length > _SHORTEST)
        out = mixed_GBSd * scale
        out[heads:].mul_(temperature_K[:, None, None, None])
        rotate_(out, cos, sin)
        return out[:heads].transpose(0, 1), out[heads:].transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, d_q: Tensor, d_k: Tensor) -> tuple[Tensor | None, ...]:
        mixed, temperature, cos, sin, scale, is_long = ctx.saved_tensors
        heads = d_q.shape[1]
        gradient = rotate_(torch.cat((d_q.transpose(0, 1), d_k.transpose(0, 1))), cos, -sin)
        unit = mixed * scale
        along = (gradient * unit).sum(dim=-1, keepdim=True)
        d_temperature = along[heads:].sum(dim=(1, 2, 3))
        # Along the head itself nothing changes, but where its length was clamped.
        along *= is_long
        gradient.addcmul_(unit, along, value=-1.0 / mixed.shape[-1]).mul_(scale)
        gradient[heads:].mul_(temperature[:, None, None, None])
        return gradient, d_temperature, None, None
