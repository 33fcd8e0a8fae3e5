"""What it costs to tell of every step: steps with and without telling, in turns, within one run."""

import statistics
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from bench._rows import row
from bench._training import Training, training
from zaya_model.journal import Journal
from zaya_model.plan import training_flops_per_token
from zaya_model.train.cost import step_scalars
from zaya_model.train.journaling import tell_router
from zaya_model.train.step import forward_backward, set_learning_rates

_PAIRS = 150
# What telling costs does not depend on the batch, and a short step shows it more clearly.
_SHORT = {"train.global_batch_size": 1, "train.micro_batch_size": 1}


def measure() -> list[dict]:
    """Median of the pairs' differences on a short step, beside the preset's own step; one thread, processor time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with TemporaryDirectory(prefix="zbench-") as folder, Journal(Path(folder) / "a.jsonl", 1) as journal:
            with training(_SHORT) as run:
                added = statistics.median(_difference(run, journal, number) for number in range(_PAIRS))
            with training() as run:
                silent = statistics.median(_timed(_silent, run, journal) for _ in range(10))
    finally:
        torch.set_num_threads(threads)
    return [row("telemetry, added to a step at tiny-cpu", 1e3 * added, "ms", "silent step", 1e3 * silent)]


def _difference(run: Training, journal: Journal, number: int) -> float:
    """Seconds that telling added; the one that comes second finds warm caches, so they take turns."""
    order = (_silent, _told) if number % 2 else (_told, _silent)
    times = {step: _timed(step, run, journal) for step in order}
    return times[_told] - times[_silent]


def _timed(step, run: Training, journal: Journal) -> float:
    begin = time.process_time()
    step(run, journal)
    return time.process_time() - begin


def _told(run: Training, journal: Journal) -> None:
    """A step as the loop takes it, with its metrics and now and then its loads in the journal."""
    result = run.step()
    flops = training_flops_per_token(run.config.model, run.state.phase.sequence_length)
    scalars = step_scalars(
        result, tokens_per_step=run.config.tokens_per_step, flops_per_token=flops, peaks={"mfu": 1e12}
    )
    journal.metrics(run.state.step, scalars)
    if run.state.step % run.config.train.router_every_steps == 0:
        tell_router(journal, run.state.step, result.counts, run.state.model.balancing_biases)


def _silent(run: Training, journal: Journal | None = None) -> None:
    """The same step when nobody asks: one norm for clipping, nothing brought to the host."""
    state = run.state
    state.model.train()
    forward_backward(state, run.batches(), run.world)
    counts = state.model.router_counts()
    state.model.reset_router_counts()
    gradients = [parameter.grad for parameter in state.model.parameters()]
    whole = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    torch._foreach_mul_(gradients, (state.config.optimizer.gradient_clip / whole).clamp_max(1.0))
    _, share = set_learning_rates(state)
    state.muon.step()
    state.adamw.step()
    state.balancer.step(counts, share)
    state.muon.zero_grad()
    state.adamw.zero_grad()
    state.step += 1
