"""AdamW against torch's own."""

import torch

from zaya_model.optim.adamw import AdamW
from zaya_model.optim.optimizer import Group
from zaya_model.parallel.pieces import whole


def test_it_moves_as_torchs_does() -> None:
    torch.manual_seed(0)
    ours = [whole("matrix", torch.randn(4, 3)), whole("vector", torch.randn(5))]
    theirs = [torch.nn.Parameter(piece.values().clone()) for piece in ours]
    optimizer = AdamW([Group(ours[:1], 0.1), Group(ours[1:])], rate=0.01, betas=(0.9, 0.95), eps=1e-8)
    groups = [{"params": theirs[:1], "weight_decay": 0.1}, {"params": theirs[1:], "weight_decay": 0.0}]
    reference = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.95), eps=1e-8)
    for _ in range(5):
        for other in theirs:
            other.grad = torch.randn_like(other)
        optimizer.step({piece: other.grad for piece, other in zip(ours, theirs, strict=True)})
        reference.step()
    for piece, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(piece.values(), other.detach())


def test_a_piece_without_gradient_stays_and_has_no_state() -> None:
    piece = whole("vector", torch.ones(3))
    optimizer = AdamW([Group([piece], 0.5)], rate=0.1, betas=(0.9, 0.95), eps=1e-8)
    optimizer.step({})
    assert torch.equal(piece.values(), torch.ones(3))
    assert not optimizer.state
