"""AdamW against torch's own."""

import torch

from zaya_model.optim.adamw import AdamW
from zaya_model.optim.optimizer import Group


def test_it_moves_as_torchs_does() -> None:
    torch.manual_seed(0)
    ours = [torch.nn.Parameter(torch.randn(4, 3)), torch.nn.Parameter(torch.randn(5))]
    theirs = [torch.nn.Parameter(parameter.detach().clone()) for parameter in ours]
    optimizer = AdamW([Group(ours[:1], 0.1), Group(ours[1:])], rate=0.01, betas=(0.9, 0.95), eps=1e-8)
    groups = [{"params": theirs[:1], "weight_decay": 0.1}, {"params": theirs[1:], "weight_decay": 0.0}]
    reference = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.95), eps=1e-8)
    for _ in range(5):
        for mine, other in zip(ours, theirs, strict=True):
            mine.grad = torch.randn_like(mine)
            other.grad = mine.grad.clone()
        optimizer.step()
        reference.step()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.detach(), other.detach())


def test_a_parameter_without_gradient_stays_and_has_no_state() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = AdamW([Group([parameter], 0.5)], rate=0.1, betas=(0.9, 0.95), eps=1e-8)
    optimizer.step()
    assert torch.equal(parameter.detach(), torch.ones(3))
    assert not optimizer.state


def test_gradients_are_forgotten() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.grad = torch.ones(3)
    AdamW([Group([parameter])], rate=0.1, betas=(0.9, 0.95), eps=1e-8).zero_grad()
    assert parameter.grad is None
