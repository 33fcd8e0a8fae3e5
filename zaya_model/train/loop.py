"""When to step, log, evaluate, save and stop."""

import math
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch

from zaya_model.bench.matmul import device_name, measure_matmul_flops, spec_flops
from zaya_model.checkpoint.restore import Found, find_checkpoint, read_tensors, set_aside_newer
from zaya_model.checkpoint.save import Saver
from zaya_model.config import RunConfig
from zaya_model.errors import PeerLost, TrainingError, ZayaError
from zaya_model.journal import Journal, journal_path
from zaya_model.parallel.mesh import World, is_first_process, join_world
from zaya_model.plan import training_flops_per_token
from zaya_model.train.attempt import next_attempt
from zaya_model.train.cost import step_scalars
from zaya_model.train.evaluate import evaluate
from zaya_model.train.feed import Feed
from zaya_model.train.journaling import PatientJournal, Terminal, tell_phase, tell_router, tell_start
from zaya_model.train.state import TrainState
from zaya_model.train.step import StepResult, train_step


def train(config: RunConfig, run_dir: Path, *, resume: str | None = None, attempt: int | None = None) -> str:
    """Train until the last step or until asked to stop; returns `finished` or `stopped`.

    `resume` is `latest`, a step, or None for a fresh start. A file `stop` in the run's folder, SIGTERM or SIGINT ask to
    stop: a checkpoint is written first. Raises ZayaError, after saying so in the journal.
    """
    number = attempt or next_attempt(run_dir)
    with ExitStack() as stack:
        journal = None
        if is_first_process():
            journal = stack.enter_context(PatientJournal(journal_path(run_dir, number), number))
        training = Training(config, run_dir, number, journal)
        try:
            training.world = stack.enter_context(join_world(config.train.device, config.parallel.context))
            # Who came later saw the first one's journal and counted on.
            training.attempt = training.world.tell(number)
            return training.run(resume)
        except Exception as error:
            known = _explain(error, run_dir)
            text = str(known) if isinstance(known, ZayaError) else f"{type(known).__name__}: {known}"
            # No failure of the run: it goes on from its last checkpoint while restarts are left.
            training.tell_failure(text, "peer_lost" if isinstance(known, PeerLost) else "failed")
            if known is error:
                raise
            raise known from error


@dataclass
class Training:
    """One attempt of one run on this process."""

    config: RunConfig
    run_dir: Path
    attempt: int
    journal: Journal | None  # only the first process writes
    world: World = field(init=False)
    state: TrainState | None = field(default=None, init=False)
    was_signalled: bool = field(default=False, init=False)

    def run(self, resume: str | None) -> str:
        """Set up, loop, end."""
        with self._signals():
            self.feed = Feed(self.config, self.run_dir / "data", self.world)
            self.state = TrainState(self.config, self.world)
            found = self._restore(resume)
            self.peaks = self._measure_peaks()
            if self.journal:
                tell_start(
                    self.journal, self.config, self.state, found, resume=resume, peaks=self.peaks,
                    device=device_name(self.world.device), world_size=self.world.size,
                )  # fmt: skip
            self.saver = Saver(
                self.run_dir, self.config, self._report_checkpoint, rank=self.world.rank, world_size=self.world.size,
                attempt=self.attempt,
            )  # fmt: skip
            ended = self._loop()
            self.saver.wait()
            self.world.wait()
        if self.journal:
            text = "All steps are done." if ended == "finished" else f"Stopped after step {self.state.step:,} as asked."
            self.journal.event(self.state.step, ended, text)
        return ended

    def _loop(self) -> str:
        state, every = self.state, self.config.train
        counts = torch.zeros_like(state.model.router_counts(), device="cpu")
        terminal = Terminal(every.steps)
        saved_at, stall, wants_stop = state.step, 0.0, False
        while state.step < every.steps and not wants_stop:
            started = time.perf_counter()
            self._enter_phase()
            mixture, world = self.feed.mixture, self.world
            micro_batches = list(mixture.micro_batches(state.step, world.data_rank, world.data_size))
            seconds = {"data": time.perf_counter() - started, "checkpoint": stall}
            phase, stall = state.phase, 0.0

            result = train_step(state, micro_batches, self.world, wants_stop=self._is_asked_to_stop())
            result.seconds |= seconds
            counts += result.counts
            wants_stop = result.wants_stop

            if self.journal and (state.step % every.log_every_steps == 0 or not math.isfinite(result.loss)):
                scalars = self._scalars(result, phase.tokens_per_step)
                self.journal.metrics(state.step, scalars)
                terminal.tell(state.step, scalars)
            if self.journal and state.step % every.router_every_steps == 0:
                tell_router(self.journal, state.step, counts, state.model.balancing_biases)
                counts.zero_()
            self._check_is_finite(result)
            if every.eval_every_steps and state.step % every.eval_every_steps == 0:
                self._evaluate()
            if self.config.checkpoint.every_steps and state.step % self.config.checkpoint.every_steps == 0:
                stall, saved_at = self._save(), state.step
        if saved_at != state.step:
            self._save()
        return "finished" if state.step >= every.steps else "stopped"

    def _save(self) -> float:
        return self.saver.save(self.state.step, self.state.shared_tensors(), self.state.own_tensors())

    def _enter_phase(self) -> None:
        if self.feed.enter(self.state.phase):
            self.state.enter_phase()
            self.flops_per_token = training_flops_per_token(self.config.model, self.state.phase.sequence_length)
            if self.journal:
                tell_phase(self.journal, self.state.step, self.feed.mixture)

    def _scalars(self, result: StepResult, tokens_per_step: int) -> dict[str, float]:
        scalars = step_scalars(
            result, tokens_per_step=tokens_per_step, flops_per_token=self.flops_per_token, peaks=self.peaks
        )
        return {**scalars, "tokens": self.state.tokens}

    def _check_is_finite(self, result: StepResult) -> None:
        """The weights are spoilt by now, so this step must not be saved."""
        if not math.isfinite(result.loss):
            raise TrainingError(
                f"The loss became {result.loss} at step {self.state.step:,}. Lower the learning rates, raise "
                "optimizer.warmup_steps, or go on from an earlier checkpoint."
            )

    def _evaluate(self) -> None:
        if not self.feed.held_out:
            return
        self.state.shards.settle()
        scalars = evaluate(
            self.state.model, self.feed.held_out, self.world, batches=self.config.train.eval_batches,
            batch_size=self.state.phase.micro_batch_size, precision=self.config.train.precision,
        )  # fmt: skip
        if self.journal:
            self.journal.metrics(self.state.step, scalars)

    def _restore(self, resume: str | None) -> Found:
        """Take up a checkpoint; the first process chooses and checks it, all read it."""
        found = Found()
        if self.world.is_first:
            if resume is not None:
                found = find_checkpoint(self.run_dir, None if resume == "latest" else int(resume))
            self._set_aside(found.manifest.step if found.manifest else -1, found)
        step = self.world.tell(found.manifest.step if found.manifest else -1)
        if step < 0:
            return found
        if not self.world.is_first:
            found = find_checkpoint(self.run_dir, step, is_verified=True)
        self.state.load(read_tensors(found.folder, found.manifest))
        return found

    def _set_aside(self, step: int, found: Found) -> None:
        """Checkpoints of a course that is given up leave the list, except damaged ones, which say why themselves."""
        damaged = {refused.step for refused in found.refused}
        for number in set_aside_newer(self.run_dir, step, self.attempt, keep=damaged):
            self._report_checkpoint(number, "removed", reason="set aside: the run goes on from an earlier step")

    def _measure_peaks(self) -> dict[str, float]:
        """FLOP/s of all devices together: what products really reach here, and the maker's figure where we know it."""
        dtype = torch.bfloat16 if self.config.train.precision == "bf16" else torch.float32
        peaks = {"mfu": measure_matmul_flops(self.world.device, dtype)}
        if spec := spec_flops(device_name(self.world.device)):
            peaks["mfu_spec"] = spec
        return {name: peak * self.world.size for name, peak in peaks.items()}

    def _report_checkpoint(self, step: int, status: str, **details: object) -> None:
        if self.journal:
            self.journal.write("checkpoint", step, status=status, path=f"checkpoints/step-{step:08d}", **details)
            if status == "failed":
                self.journal.event(step, "checkpoint_failed", f"Checkpoint not saved: {details['reason']}")

    def tell_failure(self, text: str, name: str) -> None:
        """Say in the journal why it ended."""
        if self.journal:
            self.journal.event(self.state.step if self.state else 0, name, text)

    def _is_asked_to_stop(self) -> bool:
        return self.was_signalled or (self.world.is_first and (self.run_dir / "stop").exists())

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Turn SIGTERM and SIGINT into a wish to stop at the end of the step."""
        signals = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, self._note_signal) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _note_signal(self, *_: object) -> None:
        self.was_signalled = True


def _explain(error: Exception, run_dir: Path) -> Exception:
    """Turn what a person can mend into a sentence; anything else is a fault of ours and keeps its traceback."""
    if isinstance(error, ZayaError):
        return error
    if isinstance(error, OSError):
        place = error.filename or run_dir
        return TrainingError(f"{error.strerror or error} ({place}). Make room or rights there, then start it again.")
    text = str(error)
    if isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in text:
        return TrainingError(f"Not enough memory; lower train.micro_batch_size or the sequence length. ({text})")
    if isinstance(error, RuntimeError) and ("gloo" in text.lower() or "NCCL" in text):
        return PeerLost(f"Another process of the run ended or went silent, so this one can't go on. ({text})")
    return error
