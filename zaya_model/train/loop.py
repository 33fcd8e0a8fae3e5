"""When to step, log, evaluate, save and stop."""

import math
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch

from zaya_model.bench.matmul import measure_matmul_flops, spec_flops
from zaya_model.checkpoint.restore import Found, find_checkpoint, read_tensors
from zaya_model.checkpoint.save import Saver
from zaya_model.config import RunConfig
from zaya_model.data.loader import Batches, Split, split_data
from zaya_model.data.prepare import open_data
from zaya_model.errors import ConfigError, Problem, TrainingError, ZayaError
from zaya_model.journal import Journal, journal_path
from zaya_model.parallel.mesh import World, join_world
from zaya_model.plan import training_flops_per_token
from zaya_model.train.cost import step_scalars
from zaya_model.train.evaluate import evaluate
from zaya_model.train.journaling import next_attempt, tell_router, tell_start
from zaya_model.train.state import TrainState
from zaya_model.train.step import StepResult, train_step


def train(config: RunConfig, run_dir: Path, *, resume: str | None = None, attempt: int | None = None) -> str:
    """Train until the last step or until asked to stop; returns `finished` or `stopped`.

    `resume` is `latest`, a step, or None for a fresh start. A file `stop` in the run's folder, SIGTERM or SIGINT ask to
    stop: a checkpoint is written first. Raises ZayaError, after saying so in the journal.
    """
    with ExitStack() as stack:
        world = stack.enter_context(join_world(config.train.device))
        number = attempt or next_attempt(run_dir)
        path = journal_path(run_dir, number, world.node)
        journal = stack.enter_context(Journal(path, number, world.rank)) if world.is_first else None
        try:
            return Training(config, run_dir, world, journal).run(resume)
        except ZayaError as error:
            if journal:
                journal.event(0, "failed", str(error))
            raise


@dataclass
class Training:
    """One attempt of one run on this process."""

    config: RunConfig
    run_dir: Path
    world: World
    journal: Journal | None  # only the first process writes

    was_signalled: bool = field(default=False, init=False)

    def run(self, resume: str | None) -> str:
        """Set up, loop, end."""
        (self.run_dir / "stop").unlink(missing_ok=True)
        training, validation = self._open_data()
        self.state = TrainState(self.config, self.world.device)
        found = self._restore(resume)
        self.batches = Batches(training, self.config.train.global_batch_size, self.config.train.seed)
        self.peaks = self._measure_peaks()
        self.flops_per_token = training_flops_per_token(self.config)
        if self.journal:
            tell_start(
                self.journal, self.config, self.state, found, device=self._device_name(), peaks=self.peaks,
                world_size=self.world.size,
            )  # fmt: skip
        saver = Saver(self.run_dir, self.config, self._report_checkpoint)
        with self._signals():
            ended = self._loop(saver, validation)
        saver.wait()
        self.world.wait()
        if self.journal:
            text = "All steps are done." if ended == "finished" else f"Stopped after step {self.state.step:,} as asked."
            self.journal.event(self.state.step, ended, text)
        return ended

    def _loop(self, saver: Saver, validation: Split) -> str:
        state, every = self.state, self.config.train
        saved_at = state.step
        counts = torch.zeros_like(state.model.router_counts())
        stall = 0.0
        while state.step < every.steps:
            started = time.perf_counter()
            micro_batches = list(self._micro_batches(state.step))
            data_seconds = time.perf_counter() - started

            result = train_step(state, micro_batches, self.world)
            result.seconds |= {"data": data_seconds, "checkpoint": stall}
            counts += result.counts
            stall = 0.0

            if state.step % every.log_every_steps == 0:
                self._log(result)
            if state.step % every.router_every_steps == 0 and self.journal:
                tell_router(self.journal, state.step, counts, state.model.balancing_biases)
                counts.zero_()
            if every.eval_every_steps and state.step % every.eval_every_steps == 0 and validation.num_windows:
                self._evaluate(validation)
            is_due = self.config.checkpoint.every_steps and state.step % self.config.checkpoint.every_steps == 0
            if is_due and self.world.is_first:
                stall, saved_at = saver.save(state.step, state.tensors()), state.step
            if self._is_asked_to_stop():
                break
        if self.world.is_first and saved_at != state.step:
            saver.save(state.step, state.tensors())
        return "finished" if state.step >= every.steps else "stopped"

    def _micro_batches(self, step: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        mine = self.batches.part(step, self.world.rank, self.world.size)
        size = self.config.train.micro_batch_size
        for start in range(0, len(mine), size):
            yield self.batches.split.read(mine[start : start + size])

    def _log(self, result: StepResult) -> None:
        scalars = step_scalars(
            result, tokens_per_step=self.config.tokens_per_step, flops_per_token=self.flops_per_token, peaks=self.peaks
        )
        if self.journal:
            self.journal.metrics(self.state.step, {**scalars, "tokens": self.state.tokens})
        if not math.isfinite(scalars["loss"]):
            raise TrainingError(
                f"The loss became {scalars['loss']} at step {self.state.step:,}. Lower the learning rates, raise "
                "optimizer.warmup_steps, or go on from an earlier checkpoint."
            )

    def _evaluate(self, validation: Split) -> None:
        scalars = evaluate(self.state, validation, self.world, bytes_per_token=self.data.bytes_per_token)
        if self.journal:
            self.journal.metrics(self.state.step, scalars)

    def _open_data(self) -> tuple[Split, Split]:
        data = self.config.data
        cache = self.run_dir / "data"
        # One process makes the tokens, the others find them made.
        if self.world.is_first:
            self.data = open_data(data.path, data.tokenizer, cache)
        self.world.wait()
        if not self.world.is_first:
            self.data = open_data(data.path, data.tokenizer, cache)
        if self.data.manifest.vocab_size > self.config.model.vocab_size:
            need = self.data.manifest.vocab_size
            raise ConfigError([Problem("model.vocab_size", f"the tokenizer of the data needs at least {need:,}")])
        return split_data(self.data, sequence_length=data.sequence_length, validation_fraction=data.validation_fraction)

    def _restore(self, resume: str | None) -> Found:
        if resume is None:
            return Found()
        found = find_checkpoint(self.run_dir, None if resume == "latest" else int(resume))
        if found.manifest is not None and found.folder is not None:
            self.state.load(read_tensors(found.folder, found.manifest))
        return found

    def _measure_peaks(self) -> dict[str, float]:
        """FLOP/s of all devices together: what products really reach here, and the maker's figure where we know it."""
        dtype = torch.bfloat16 if self.config.train.precision == "bf16" else torch.float32
        peaks = {"mfu": measure_matmul_flops(self.world.device, dtype)}
        if spec := spec_flops(self._device_name()):
            peaks["mfu_spec"] = spec
        return {name: peak * self.world.size for name, peak in peaks.items()}

    def _device_name(self) -> str:
        return torch.cuda.get_device_name(self.world.device) if self.world.device.type == "cuda" else "CPU"

    def _report_checkpoint(self, step: int, status: str, **details: object) -> None:
        if self.journal:
            self.journal.write("checkpoint", step, status=status, path=f"checkpoints/step-{step:08d}", **details)
            if status == "failed":
                self.journal.event(step, "checkpoint_failed", f"Checkpoint not saved: {details['reason']}")

    def _is_asked_to_stop(self) -> bool:
        asked = self.was_signalled or (self.world.is_first and (self.run_dir / "stop").exists())
        return self.world.agree(asked)

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
