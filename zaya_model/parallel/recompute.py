"""Activation checkpointing: keep a block's input alone, compute the block again for its gradient (arXiv 1604.06174)."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from torch import Tensor
from torch.utils.checkpoint import checkpoint

from zaya_model.model.attention import Past
from zaya_model.model.block import Block
from zaya_model.model.zaya import Model


def recompute_blocks(model: Model) -> None:
    """Train with the activations of one block at a time, for a third more products."""
    model.run_block = _run_twice


def _run_twice(
    block: Block, h_BSD: Tensor, state_NR: Tensor | None, token_mask_BS: Tensor | None, past: Past | None
) -> tuple[Tensor, Tensor | None, Past | None]:
    """`Block.forward`; while training it does not keep what later tokens would need."""
    if not block.training:
        return block(h_BSD, state_NR, token_mask_BS, past)

    def run(h_BSD: Tensor, state_NR: Tensor | None) -> tuple[Tensor, Tensor | None]:
        return block(h_BSD, state_NR, token_mask_BS, past)[:2]

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), _uncounted(block)

    # Nothing in a block is random.
    h_BSD, state_NR = checkpoint(
        run, h_BSD, state_NR, use_reentrant=False, preserve_rng_state=False, context_fn=contexts
    )
    return h_BSD, state_NR, None


@contextmanager
def _uncounted(block: Block) -> Iterator[None]:
    """The second time, the router's loads have been counted already."""
    block.router.is_counting = False
    try:
        yield
    finally:
        block.router.is_counting = True
