"""One training step of the model beside transformers', beside its own matrix products, and the memory of both."""

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from bench._rows import row
from zaya_model.config import ModelConfig
from zaya_model.model import Model
from zaya_model.model.loss import head_loss

_THREADS = 2
_BATCH, _LENGTH = 4, 256
_ROUNDS = 9
_SMALL = {
    "vocab_size": 4096, "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 1,
    "head_dim": 32, "moe_intermediate_size": 256, "num_experts": 8, "router_hidden_size": 64,
    "max_position_embeddings": 512,
}  # fmt: skip
_WIDE = _SMALL | {"hidden_size": 512, "num_hidden_layers": 2, "head_dim": 64, "moe_intermediate_size": 1024}
_BIG_VOCABULARY, _TOKENS, _WIDTH = 262_272, 1024, 64
_IMPLEMENTATIONS = ("grouped_mm", "eager")

Step = Callable[[], object]


def measure() -> list[dict]:
    """Each figure in a process of its own, so that threads and peak memory are its own."""
    step, ours, theirs = _apart("pairs"), _apart("memory_ours"), _apart("memory_theirs")
    wide, low, loss, whole = _apart("wide"), _apart("bf16"), _apart("loss_ours"), _apart("loss_theirs")
    name = f"training step, hidden 256, fp32, {_THREADS} threads"
    peer = f"transformers, {step['implementation']}"
    return [
        row(f"{name}", step["ours"], "tokens/s", peer, step["theirs"]),
        row(f"{name}: most that its products allow", step["products"], "tokens/s", peer, step["theirs"]),
        row(f"{name}: peak memory", ours / 2**20, "MiB", "transformers", theirs / 2**20),
        row("training step, hidden 512: share of its products", wide, "", "goal", 0.6),
        row("training step, hidden 256, bf16", low["bf16"], "tokens/s", "fp32", low["fp32"]),
        row(f"loss over {_BIG_VOCABULARY:,} classes: peak memory", loss / 2**20, "MiB", "all logits", whole / 2**20),
    ]


def pairs() -> dict[str, Any]:
    """Tokens/s of ours and of transformers' fastest, in turns, from the same weights."""
    from transformers import ZayaConfig, ZayaForCausalLM

    theirs = ZayaForCausalLM(ZayaConfig(**_SMALL, eos_token_id=1)).float().train()
    with torch.no_grad():
        for name, parameter in theirs.named_parameters():
            if name.endswith("temp"):
                parameter.fill_(1.0)
    step_ours, step_theirs = _step(Model(ModelConfig(**_SMALL, rope_theta=5e6))), _their_step(theirs)
    by_name = {}
    for name in _IMPLEMENTATIONS:
        theirs.set_experts_implementation(name)
        by_name[name] = min(_times(step_theirs, rounds=3)[0])
    fastest = min(by_name, key=by_name.__getitem__)
    theirs.set_experts_implementation(fastest)
    ours, peers, products = _times(step_ours, step_theirs, _products_of(step_ours))
    tokens = _BATCH * _LENGTH
    return {
        "implementation": fastest,
        "ours": tokens / statistics.median(ours),
        "theirs": tokens / statistics.median(peers),
        "products": tokens / statistics.median(products),
    }


def wide() -> float:
    """Time of the products alone over time of the step, where the products dominate."""
    step = _step(Model(ModelConfig(**_WIDE)))
    whole, products = _times(step, _products_of(step))
    return statistics.median(part / all_of_it for part, all_of_it in zip(products, whole, strict=True))


def bf16() -> dict[str, float]:
    """Tokens/s in both precisions, in turns."""
    step = _step(Model(ModelConfig(**_SMALL)))

    def low() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            step()

    # A CPU without bf16 products is slow enough to need few rounds.
    fp32, bf16 = _times(step, low, rounds=3)
    return {"fp32": _BATCH * _LENGTH / statistics.median(fp32), "bf16": _BATCH * _LENGTH / statistics.median(bf16)}


def memory_ours() -> int:
    """Bytes that the model and three steps add at their peak."""
    return _peak_of(lambda: _repeat(_step(Model(ModelConfig(**_SMALL)))))


def memory_theirs() -> int:
    """The same of transformers'."""
    from transformers import ZayaConfig, ZayaForCausalLM

    return _peak_of(lambda: _repeat(_their_step(ZayaForCausalLM(ZayaConfig(**_SMALL, eos_token_id=1)).float().train())))


def loss_ours() -> int:
    """Bytes that the loss and its gradients add at their peak."""
    hidden, weight, targets = _big_head()
    return _peak_of(lambda: head_loss(hidden, weight, None, targets).backward())


def loss_theirs() -> int:
    """The same with all logits at once."""
    hidden, weight, targets = _big_head()
    return _peak_of(lambda: torch.nn.functional.cross_entropy(hidden @ weight.T, targets).backward())


class _Recorder(TorchDispatchMode):
    """Keep every matrix product with what went into it."""

    def __init__(self) -> None:
        super().__init__()
        self.products: list[tuple[Any, tuple, dict]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        if func.overloadpacket.__name__ in ("mm", "addmm", "addmm_", "bmm", "baddbmm"):
            self.products.append((func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))


def _products_of(step: Step) -> Step:
    """A function that does nothing but the products of a step."""
    with _Recorder() as recorder:
        step()

    @torch.no_grad()
    def again() -> None:
        for func, args, kwargs in recorder.products:
            func(*args, **kwargs)

    return again


def _step(model: Model) -> Step:
    ids, targets = _batch(model.config.vocab_size)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        model.loss(ids, targets).backward()

    return step


def _their_step(model: Any) -> Step:
    ids, _ = _batch(model.config.vocab_size)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()

    return step


def _batch(vocab_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.randint(1, vocab_size, (_BATCH, _LENGTH), generator=torch.Generator().manual_seed(0))
    return ids, torch.cat((ids[:, 1:], ids.new_full((_BATCH, 1), -100)), dim=1)


def _big_head() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    hidden = torch.randn(_TOKENS, _WIDTH, requires_grad=True)
    weight = torch.randn(_BIG_VOCABULARY, _WIDTH, requires_grad=True)
    return hidden, weight, torch.randint(0, _BIG_VOCABULARY, (_TOKENS,))


def _times(*steps: Step, rounds: int = _ROUNDS) -> list[list[float]]:
    """Seconds of each step in each round; rounds go through all of them, so that a busy moment hits all."""
    _repeat(*steps, times=2)
    found: list[list[float]] = [[] for _ in steps]
    for _ in range(rounds):
        for step, seconds in zip(steps, found, strict=True):
            begin = time.perf_counter()
            step()
            seconds.append(time.perf_counter() - begin)
    return found


def _repeat(*steps: Step, times: int = 3) -> None:
    for _ in range(times):
        for step in steps:
            step()


def _peak_of(work: Step) -> int:
    """Bytes the process holds at its peak, less what it held before; the peak of a process only ever rises."""
    process = psutil.Process()
    before = process.memory_info().rss
    work()
    return _peak_rss(process) - before


def _peak_rss(process: psutil.Process) -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return max(peak if sys.platform == "darwin" else peak * 1024, process.memory_info().rss)


def _apart(name: str) -> Any:
    environment = os.environ | {"OMP_NUM_THREADS": str(_THREADS), "TOKENIZERS_PARALLELISM": "false"}
    command = [sys.executable, "-m", "bench.model_step", name]
    out = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True, timeout=600).stdout
    return json.loads(out.splitlines()[-1])


if __name__ == "__main__":
    torch.set_num_threads(_THREADS)
    torch.manual_seed(0)
    if len(sys.argv) > 1:
        print(json.dumps(globals()[sys.argv[1]]()))
    else:
        print(json.dumps(measure(), indent=2))
