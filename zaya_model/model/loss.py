"""Mean cross entropy of a linear head that never holds the logits of all tokens at once.

Shapes: N tokens, D hidden, V vocabulary.
"""

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx, once_differentiable

IGNORED = -100
# Small enough to stay in a CPU's cache between passes, unless that left too few rows for a good product.
_CHUNK_BYTES = 8 << 20
_LEAST_ROWS = 256


class HeadLoss(torch.autograd.Function):
    """Compute each chunk's loss and, at once, its gradients: the logits are needed for a moment only.

    All in fp32, as the cross entropy and the head were in ZAYA1 (arXiv 2605.05365 §IV-D).
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx, hidden_ND: Tensor, weight_VD: Tensor, bias_V: Tensor | None, targets_N: Tensor
    ) -> Tensor:  # fmt: skip
        wants_grad = any(ctx.needs_input_grad)
        # Without a single target the mean is 0/0; one keeps it a number, and its gradient zero.
        share_N = (targets_N != IGNORED).to(hidden_ND.dtype)
        share_N /= share_N.sum().clamp_min(1)
        loss = hidden_ND.new_zeros(())
        d_hidden = torch.empty_like(hidden_ND) if wants_grad else None
        d_weight = torch.empty_like(weight_VD) if wants_grad else None
        d_bias = torch.zeros_like(bias_V) if wants_grad and bias_V is not None else None
        rows = max(_LEAST_ROWS, _CHUNK_BYTES // (4 * weight_VD.shape[0]))
        logits_MV = hidden_ND.new_empty(min(rows, len(hidden_ND)), weight_VD.shape[0])
        for start in range(0, len(hidden_ND), rows):
            part = slice(start, start + rows)
            hidden, target, share = hidden_ND[part], targets_N[part, None].clamp_min(0), share_N[part, None]
            logits = torch.mm(hidden, weight_VD.T, out=logits_MV[: len(hidden)])
            if bias_V is not None:
                logits += bias_V
            # The logarithm of a row's sum comes from its likeliest class, so that one pass, in place, is enough.
            at_target, highest = logits.gather(1, target), logits.amax(dim=-1, keepdim=True)
            p = torch.softmax(logits, dim=-1, out=logits)
            loss += ((highest - p.amax(dim=-1, keepdim=True).log() - at_target) * share).sum()
            if not wants_grad:
                continue
            # Each row's share scales the narrow side of the products instead of the wide logits.
            d_logits = p.scatter_add_(1, target, torch.full_like(share, -1.0))
            torch.mm(d_logits, weight_VD, out=d_hidden[part]).mul_(share)
            # With a beta of 0 what is not set yet is not read.
            d_weight.addmm_(d_logits.T, hidden * share, beta=1 if start else 0)
            if d_bias is not None:
                d_bias.addmv_(d_logits.T, share[:, 0])
        ctx.save_for_backward(d_hidden, d_weight, d_bias)
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        # On a CPU, looking costs nothing and mostly saves a pass over the head's gradient.
        if gradient.device.type == "cpu" and gradient.item() == 1.0:
            return *ctx.saved_tensors, None
        return *(None if saved is None else saved * gradient for saved in ctx.saved_tensors), None


def head_loss(hidden_ND: Tensor, weight_VD: Tensor, bias_V: Tensor | None, targets_N: Tensor) -> Tensor:
    """Mean cross entropy over the targets that are not IGNORED; 0 where there is none."""
    with torch.autocast(hidden_ND.device.type, enabled=False):
        return HeadLoss.apply(hidden_ND.float(), weight_VD.float(), bias_V, targets_N)
