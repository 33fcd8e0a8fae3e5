"""A model as lm-evaluation-harness asks it: log-likelihoods of continuations and of whole texts, and generation.

The three methods are those of the harness's `LM` class (lm_eval 0.4); `eval --tasks` joins the two where the harness is
installed.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from zaya_model.data.tokenizer import Tokenizer
from zaya_model.model import Model
from zaya_model.model.generate import generate


class Request(Protocol):
    """What the harness hands over: the arguments of one question."""

    args: tuple[Any, ...]


class Harness:
    """Answer the harness's questions, one after the other."""

    def __init__(self, model: Model, tokenizer: Tokenizer, *, length: int) -> None:
        self.model, self.tokenizer, self.length = model.eval(), tokenizer, length

    def loglikelihood(self, requests: Sequence[Request], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """Of each (context, continuation): its log-likelihood, and whether greedy choice would give it."""
        return [self._score(self._ids(context), self._ids(text)) for context, text in (r.args for r in requests)]

    def loglikelihood_rolling(self, requests: Sequence[Request], disable_tqdm: bool = False) -> list[float]:
        """Of each whole text; a long one in windows, each predicted from the one before it."""
        return [self._score_long(self._ids(request.args[0])) for request in requests]

    def generate_until(self, requests: Sequence[Request], disable_tqdm: bool = False) -> list[str]:
        """Greedy text after each context, up to the first of its stop words."""
        return [self._go_on(context, settings) for context, settings in (request.args for request in requests)]

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text).tolist()

    @torch.no_grad()
    def _score(self, context: list[int], continuation: list[int]) -> tuple[float, bool]:
        ids = torch.tensor([self.tokenizer.end, *context, *continuation])[-(self.length + 1) :]
        count = min(len(continuation), len(ids) - 1)
        if not count:
            return 0.0, True
        likely = self.model(ids[None, :-1])[0, -count:].log_softmax(-1)
        return _summed(likely, ids[-count:])

    def _score_long(self, ids: list[int]) -> float:
        half = max(1, self.length // 2)
        starts = range(0, len(ids), half)
        return sum(self._score(ids[max(0, s - half) : s], ids[s : s + half])[0] for s in starts)

    def _go_on(self, context: str, settings: dict[str, Any]) -> str:
        stops, most = settings.get("until") or [], settings.get("max_gen_toks", 128)
        stops = [stops] if isinstance(stops, str) else stops
        room = max(1, self.length - most)
        prompt = torch.tensor([[self.tokenizer.end, *self._ids(context)][-room:]])
        new = generate(self.model, prompt, num_tokens=most)[0, prompt.shape[1] :].tolist()
        if self.tokenizer.end in new:
            new = new[: new.index(self.tokenizer.end)]
        text = self.tokenizer.decode(new)
        ends = [place for stop in stops if stop and (place := text.find(stop)) >= 0]
        return text[: min(ends, default=len(text))]


def _summed(likely: Tensor, targets: Tensor) -> tuple[float, bool]:
    chosen = likely.gather(1, targets[:, None])
    return chosen.double().sum().item(), bool((likely.argmax(-1) == targets).all())
