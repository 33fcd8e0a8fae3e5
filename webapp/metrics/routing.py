"""What to make of the router's loads: balance by layer, sums that must hold, experts that died."""

from collections.abc import Iterable
from dataclasses import dataclass

from webapp.metrics.selectors import RouterState, entropy, violation
from webapp.runs.models import Event, Run

OVERLOADED = 2.0  # times the fair share

MEASURES = {
    "violation": ("Imbalance", "max ÷ fair − 1; 0 is even"),
    "entropy": ("Entropy", "1 is even"),
    "dead": ("Dead experts", "experts without a token"),
    "overloaded": ("Overloaded experts", f"experts above {OVERLOADED:g} × the fair share"),
    "skip_share": ("Skip share", "share of the tokens that took the skip class"),
    "bias_spread": ("Bias drift", "greatest − least balancing bias"),
}


@dataclass(frozen=True)
class LayerBalance:
    """How evenly one layer's router spread its tokens."""

    layer: int
    violation: float
    entropy: float
    dead: int
    overloaded: int
    skip_share: float
    bias_spread: float


def balance_of(state: RouterState) -> list[LayerBalance]:
    """Each layer's balance, in the order of layers."""
    rows = zip(state.layers, state.skipped, state.bias, strict=True)
    return [_balance(layer, *row) for layer, row in enumerate(rows)]


def shortfall(state: RouterState, expected: int | None) -> str:
    """A sentence when a layer's tokens are not all there, else "".

    Each token takes one class of every layer (top-1), so all layers must count the same; `expected` is how many.
    """
    totals = [sum(load) + skipped for load, skipped in zip(state.layers, state.skipped, strict=True)]
    wanted = max(totals) if expected is None else expected
    wrong = [(layer, total) for layer, total in enumerate(totals) if total != wanted]
    if not wrong:
        return ""
    layer, total = wrong[0]
    more = f", and {len(wrong) - 1} more layers do not either" if len(wrong) > 1 else ""
    return f"Layer {layer} counts {total:,} tokens, not {wanted:,}{more}."


def expected_tokens(run: Run, state: RouterState) -> int | None:
    """Tokens between two records × top-1; None where batches change size or the count began in between."""
    every = run.config["train"]["router_every_steps"]
    begins = run.attempts.exclude(from_step=None).values_list("from_step", flat=True)
    is_cut = any(state.step - every < step < state.step for step in begins)
    return None if run.config["train"].get("phases") or is_cut else every * run.tokens_per_step


def dead_experts(run: Run) -> list[Event]:
    """The trainer's words on experts that died and have not come back, oldest first."""
    dead: dict[tuple[int, int], Event] = {}
    for event in run.events.filter(name__in=("expert_died", "expert_revived")).order_by("id"):
        for place in _places(event):
            dead.pop(place, None)
            if event.name == "expert_died":
                dead[place] = event
    return list(dict.fromkeys(dead.values()))


def _places(event: Event) -> Iterable[tuple[int, int]]:
    """Layer and expert of each expert an event is about."""
    return [(layer, expert) for layer, expert in event.data.get("experts", ())]


def _balance(layer: int, load: list[int], skipped: int, bias: list[float]) -> LayerBalance:
    total = sum(load)
    return LayerBalance(
        layer=layer,
        violation=violation(load),
        entropy=entropy(load),
        dead=load.count(0),
        overloaded=sum(tokens * len(load) > OVERLOADED * total for tokens in load),
        skip_share=skipped / (total + skipped) if total + skipped else 0.0,
        bias_spread=max(bias, default=0.0) - min(bias, default=0.0),
    )
