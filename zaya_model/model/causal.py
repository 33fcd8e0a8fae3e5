"""Causal attention as a few large products: on a CPU, at short lengths, faster than the fused kernel.

Shapes: B batch, S sequence, H query heads, K key-value heads, g = H/K, d head width, c queries of a block.
"""

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

# Probabilities are kept for the backward pass, so memory grows with the square of the length.
LONGEST = 512
_BLOCK = 64


class BlockedCausal(torch.autograd.Function):
    """Softmax attention in blocks of queries, each against the keys up to its end; (B, H, S, d) in fp32.

    All query heads of a key head share one product, and no product covers keys that all of its queries are too early
    for.
    """

    @staticmethod
    def forward(ctx: FunctionCtx, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        B, H, S, d = q.shape
        K = k.shape[1]
        scaled = (q * d**-0.5).view(B, K, H // K, S, d).flatten(0, 1)
        k, v = k.reshape(B * K, S, d), v.reshape(B * K, S, d)
        future = torch.full((_BLOCK, _BLOCK), -torch.inf).triu(1)
        out = q.new_empty(B, S, K, H // K, d)
        kept = []
        for start in range(0, S, _BLOCK):
            end = min(start + _BLOCK, S)
            rows = scaled[:, :, start:end].flatten(1, 2)
            scores = torch.bmm(rows, k[:, :end].mT)
            diagonal = scores.unflatten(1, (H // K, end - start))[..., start:]
            diagonal += future[: end - start, : end - start]
            p = torch.softmax(scores, dim=-1)
            mixed = torch.bmm(p, v[:, :end]).view(B, K, H // K, end - start, d)
            out[:, start:end] = mixed.permute(0, 3, 1, 2, 4)
            kept += rows, p
        ctx.save_for_backward(k, v, *kept)
        return out.flatten(2, 3).transpose(1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        k, v, *kept = ctx.saved_tensors
        B, H, S, d = gradient.shape
        K = k.shape[0] // B
        gradient = gradient.reshape(B * K, H // K, S, d)
        d_q, d_k, d_v = torch.empty_like(gradient), torch.zeros_like(k), torch.zeros_like(v)
        for start, rows, p in zip(range(0, S, _BLOCK), kept[::2], kept[1::2], strict=True):
            end = min(start + _BLOCK, S)
            d_rows = gradient[:, :, start:end].flatten(1, 2)
            d_v[:, :end] += torch.bmm(p.mT, d_rows)
            d_p = torch.bmm(d_rows, v[:, :end].mT)
            d_scores = torch.ops.aten._softmax_backward_data(d_p, p, -1, p.dtype)
            d_k[:, :end] += torch.bmm(d_scores.mT, rows)
            d_q[:, :, start:end] = torch.bmm(d_scores, k[:, :end]).mul_(d**-0.5).unflatten(1, (H // K, -1))
        return d_q.view(B, H, S, d), d_k.view(B, K, S, d), d_v.view(B, K, S, d)
