"""Mean cross entropy of a linear head that never holds the logits of all tokens at once.

Shapes: N tokens, D hidden, V vocabulary.
"""

import torch
from torch import Tensor

IGNORED = -100
_CHUNK_BYTES = 64 << 20


class HeadLoss(torch.autograd.Function):
    """Compute each chunk's loss and, at once, its gradients: the logits are needed for a moment only.

    All in fp32, as the cross entropy and the head were in ZAYA1 (arXiv 2605.05365 §IV-D).
    """

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx, hidden_ND: Tensor, weight_VD: Tensor, bias_V: Tensor | None,
        targets_N: Tensor,
    ) -> Tensor:  # fmt: skip
        wants_grad = any(ctx.needs_input_grad)
        kept = targets_N != IGNORED
        # Without a single target the mean is 0/0; one keeps it a number, and its gradient zero.
        count = kept.sum().clamp_min(1)
        total = hidden_ND.new_zeros(())
        d_hidden = torch.empty_like(hidden_ND) if wants_grad else None
        d_weight = torch.zeros_like(weight_VD) if wants_grad else None
        d_bias = torch.zeros_like(bias_V) if wants_grad and bias_V is not None else None
        rows = max(16, _CHUNK_BYTES // (4 * weight_VD.shape[0]))
        for start in range(0, hidden_ND.shape[0], rows):
            part = slice(start, start + rows)
            hidden, target, keep = hidden_ND[part], targets_N[part].clamp_min(0)[:, None], kept[part, None]
            logits = hidden @ weight_VD.T
            if bias_V is not None:
                logits += bias_V
            log_sum = logits.logsumexp(dim=-1, keepdim=True)
            total += ((log_sum - logits.gather(1, target)) * keep).sum()
            if not wants_grad:
                continue
            d_logits = logits.sub_(log_sum).exp_()
            d_logits.scatter_add_(1, target, torch.full_like(log_sum, -1.0))
            d_logits *= keep / count
            torch.mm(d_logits, weight_VD, out=d_hidden[part])
            d_weight.addmm_(d_logits.T, hidden)
            if d_bias is not None:
                d_bias += d_logits.sum(0)
        ctx.save_for_backward(d_hidden, d_weight, d_bias)
        return total / count

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if saved is None else saved * gradient for saved in ctx.saved_tensors), None


def head_loss(hidden_ND: Tensor, weight_VD: Tensor, bias_V: Tensor | None, targets_N: Tensor) -> Tensor:
    """Mean cross entropy over the targets that are not IGNORED; 0 where there is none."""
    with torch.autocast(hidden_ND.device.type, enabled=False):
        return HeadLoss.apply(hidden_ND.float(), weight_VD.float(), bias_V, targets_N)
