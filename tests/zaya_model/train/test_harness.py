"""Answers to lm-evaluation-harness are the model's own log-likelihoods."""

from types import SimpleNamespace

import pytest
import torch

from zaya_model.config import ModelConfig
from zaya_model.data.tokenizer import ByteTokenizer
from zaya_model.model import Model
from zaya_model.train.harness import Harness


@pytest.fixture
def harness() -> Harness:
    fields = {"hidden_size": 16, "num_hidden_layers": 2, "head_dim": 8, "num_experts": 2, "initializer_range": 0.3}
    return Harness(Model(ModelConfig(**fields)), ByteTokenizer(), length=16)


def asked(*args: object) -> list[SimpleNamespace]:
    return [SimpleNamespace(args=args)]


def likelihoods(model: Model, ids: list[int]) -> list[float]:
    """Log-likelihood of each id after the first."""
    likely = model(torch.tensor([ids[:-1]]))[0].log_softmax(-1)
    return [likely[place, token].item() for place, token in enumerate(ids[1:])]


def test_a_continuation_is_scored_after_its_context(harness: Harness) -> None:
    expected = likelihoods(harness.model, [256, *b"the whale"])[-5:]
    ((score, _),) = harness.loglikelihood(asked("the ", "whale"))
    assert score == pytest.approx(sum(expected), rel=1e-5)


def test_greedy_is_told_from_not_greedy(harness: Harness) -> None:
    (text,) = harness.generate_until(asked("a", {"until": [], "max_gen_toks": 1}))
    best = harness.model(torch.tensor([[256, *b"a"]]))[0, -1].argmax().item()
    if best < 128:
        assert text == chr(best)
        assert harness.loglikelihood(asked("a", text))[0][1]
    others = [chr(code) for code in range(97, 100) if code != best]
    assert not any(harness.loglikelihood(asked("a", other))[0][1] for other in others)


def test_an_empty_context_starts_from_the_end_mark(harness: Harness) -> None:
    ((score, _),) = harness.loglikelihood(asked("", "x"))
    assert score == pytest.approx(likelihoods(harness.model, [256, *b"x"])[0], rel=1e-5)


def test_a_context_too_long_is_cut_on_the_left(harness: Harness) -> None:
    ids = [*b"a very long context indeed, and so on"]
    ((score, _),) = harness.loglikelihood(asked(bytes(ids[:-2]).decode(), bytes(ids[-2:]).decode()))
    assert score == pytest.approx(sum(likelihoods(harness.model, ids[-17:])[-2:]), rel=1e-5)


def test_a_whole_text_is_scored_once_a_token(harness: Harness) -> None:
    (short,) = harness.loglikelihood_rolling(asked("whale"))
    assert short == pytest.approx(sum(likelihoods(harness.model, [256, *b"whale"])), rel=1e-5)
    (long,) = harness.loglikelihood_rolling(asked("whale" * 10))
    assert -long / 50 == pytest.approx(-short / 5, rel=0.5)


def test_generation_ends_at_a_stop_word(harness: Harness) -> None:
    (free,) = harness.generate_until(asked("the", {"until": [], "max_gen_toks": 8}))
    if len(free) > 1:
        (stopped,) = harness.generate_until(asked("the", {"until": free[1], "max_gen_toks": 8}))
        assert stopped == free[: free.index(free[1])]
