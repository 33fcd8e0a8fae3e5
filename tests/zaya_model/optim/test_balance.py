"""The bias follows the load (arXiv 2605.05365 eq. 5)."""

import pytest
import torch

from zaya_model.config import BalanceConfig
from zaya_model.optim.balance import Balancer


def test_the_rule_is_adamw_with_load_minus_fair_share_as_gradient() -> None:
    config = BalanceConfig(learning_rate=0.01, include_skip=True)
    reference = torch.nn.Parameter(torch.tensor([[0.1, -0.2, 0.0, -1.0], [0.0, 0.0, 0.3, -1.0]]))
    adamw = torch.optim.AdamW([reference], lr=0.01, betas=(config.beta1, config.beta2), eps=1e-8, weight_decay=0)
    biases = [row.clone() for row in reference.detach()]
    balancer = Balancer(biases, config)
    for seed in range(5):
        counts = torch.randint(0, 50, (2, 4), generator=torch.Generator().manual_seed(seed))
        reference.grad = counts / counts.sum(1, keepdim=True) - 0.25
        adamw.step()
        balancer.step(counts)
    torch.testing.assert_close(torch.stack(biases), reference.detach())


def test_an_overused_expert_loses_and_an_idle_one_gains() -> None:
    bias = torch.zeros(4)
    Balancer([bias], BalanceConfig(learning_rate=0.5)).step(torch.tensor([[10, 5, 0, 7]]))
    assert bias[0] < 0 < bias[2]


@pytest.mark.parametrize("include_skip", [True, False])
def test_the_skip_class_is_in_or_out_of_the_target(include_skip: bool) -> None:
    bias = torch.tensor([0.0, 0.0, -1.0])
    Balancer([bias], BalanceConfig(include_skip=include_skip)).step(torch.tensor([[5, 5, 0]]))
    assert (bias[2] != -1.0) == include_skip


def test_balance_stays_where_the_load_is_even() -> None:
    bias = torch.zeros(5)
    Balancer([bias], BalanceConfig()).step(torch.tensor([[8, 8, 8, 8, 0]]))
    assert torch.equal(bias, torch.zeros(5))


def test_it_can_be_switched_off() -> None:
    bias = torch.zeros(3)
    Balancer([bias], BalanceConfig(enabled=False)).step(torch.tensor([[9, 0, 0]]))
    assert torch.equal(bias, torch.zeros(3))


def test_it_goes_on_from_its_state() -> None:
    first = Balancer([torch.zeros(3)], BalanceConfig())
    first.step(torch.tensor([[9, 1, 0]]))
    second = Balancer([first.biases[0].clone()], BalanceConfig())
    second.load_state_dict({name: tensor.clone() for name, tensor in first.state_dict().items()})
    for balancer in (first, second):
        balancer.step(torch.tensor([[2, 8, 0]]))
    assert torch.equal(first.biases[0], second.biases[0])
