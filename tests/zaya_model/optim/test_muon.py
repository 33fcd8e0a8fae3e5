"""Newton-Schulz against the exact answer, and Muon against its plain definition."""

import pytest
import torch

from zaya_model.optim.muon import Muon, orthogonalise
from zaya_model.optim.optimizer import Group
from zaya_model.parallel.pieces import whole


def plain_newton_schulz(matrix: torch.Tensor) -> torch.Tensor:
    """The loop of Jordan et al. 2024 on one matrix."""
    a, b, c = 3.4445, -4.7750, 2.0315
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / x.norm()
    for _ in range(5):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


@pytest.mark.parametrize("shape", [(8, 8), (4, 12), (12, 4)])
def test_a_stack_equals_each_matrix_on_its_own(shape: tuple[int, int]) -> None:
    stack = torch.randn(5, *shape)
    expected = torch.stack([plain_newton_schulz(matrix) for matrix in stack])
    torch.testing.assert_close(orthogonalise(stack), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("shape", [(16, 16), (16, 64), (64, 16)])
def test_singular_values_end_near_one(shape: tuple[int, int]) -> None:
    values = torch.linalg.svdvals(orthogonalise(torch.randn(3, *shape)))
    # A square matrix may have a value near 0, which five iterations can't lift all the way.
    assert values.max() < 1.25
    assert values.median() > 0.6


def test_a_zero_gradient_moves_nothing() -> None:
    assert torch.equal(orthogonalise(torch.zeros(2, 4, 4)), torch.zeros(2, 4, 4))


def test_a_step_is_that_of_each_expert_and_each_half_alone() -> None:
    torch.manual_seed(0)
    fused, gradient = whole("fused", torch.randn(3, 8, 4)), torch.randn(3, 8, 4)
    apart = [whole("half", half.clone()) for expert in fused.parameter for half in expert.split(4)]
    gradients = {fused: gradient, **dict(zip(apart, [h for e in gradient for h in e.split(4)], strict=True))}
    for group in (Group([fused], 0.01, fused=2), Group(apart, 0.01)):
        optimizer = Muon([group], rate=0.1, momentum=0.9)
        optimizer.step(gradients)
        optimizer.step(gradients)
    torch.testing.assert_close(fused.values().flatten(0, 1), torch.cat([piece.values() for piece in apart]))


def test_the_update_has_the_size_of_adamws() -> None:
    piece = whole("matrix", torch.zeros(64, 256))
    Muon([Group([piece])], rate=1.0, momentum=0.0).step({piece: torch.randn(64, 256)})
    assert piece.values().square().mean().sqrt().item() == pytest.approx(0.2, rel=0.25)


def test_weight_decay_shrinks_what_has_no_gradient_direction() -> None:
    piece = whole("matrix", torch.ones(4, 4))
    Muon([Group([piece], 0.1)], rate=0.5, momentum=0.9).step({piece: torch.zeros(4, 4)})
    torch.testing.assert_close(piece.values(), torch.full((4, 4), 0.95))
