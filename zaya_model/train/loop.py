"""When to step, log, evaluate, save, go back and stop."""

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import torch
from torch import Tensor

from zaya_model.bench.matmul import device_name, measure_matmul_flops, spec_flops
from zaya_model.checkpoint.restore import Found, find_checkpoint, read_tensors, set_aside_newer
from zaya_model.checkpoint.save import Saver
from zaya_model.config import RunConfig
from zaya_model.errors import PeerLost, TrainingError, ZayaError
from zaya_model.journal import Journal, journal_path
from zaya_model.parallel.mesh import World, is_first_process, join_world
from zaya_model.plan import training_flops_per_token
from zaya_model.train.asked import Asked, Wishes
from zaya_model.train.attempt import next_attempt
from zaya_model.train.cost import step_scalars
from zaya_model.train.evaluate import evaluate
from zaya_model.train.feed import Feed
from zaya_model.train.heartbeat import Heartbeat
from zaya_model.train.journaling import PatientJournal, Terminal, tell_experts, tell_phase, tell_router, tell_start
from zaya_model.train.skips import Skip, add_skip, batch_of, forget_skips, read_skips
from zaya_model.train.state import TrainState
from zaya_model.train.step import StepResult, train_step
from zaya_model.train.watch import Alarm, ExpertWatch


def train(config: RunConfig, run_dir: Path, *, resume: str | None = None, attempt: int | None = None) -> str:
    """Train until the last step or until asked to end; returns `finished`, `stopped`, `preempted` or `superseded`.

    `resume` is `latest`, a step, or None for a fresh start. A file `stop` in the run's folder or SIGINT ask to stop,
    SIGTERM says that the machine is taken away: a checkpoint is written first. Raises ZayaError, after saying so in the
    journal.
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


_SECONDS_FOR_A_LAST_SAVE = 20.0
_ENDS = {
    "finished": "All steps are done.",
    "stopped": "Stopped after step {step:,} as asked.",
    "superseded": "Ended after step {step:,} without saving, since a newer attempt has the run's folder.",
    "preempted": "Saved after step {step:,} and ended, since the machine asked for it (SIGTERM).",
}


@dataclass
class Training:
    """One attempt of one run on this process."""

    config: RunConfig
    run_dir: Path
    attempt: int
    journal: Journal | None  # only the first process writes
    world: World = field(init=False)
    state: TrainState | None = field(default=None, init=False)
    skips: list[Skip] = field(default_factory=list, init=False)

    def run(self, resume: str | None) -> str:
        """Set up, loop, end."""
        with Wishes(self.run_dir, self.attempt, is_first=self.world.is_first) as self.wishes:
            self.feed = Feed(self.config, self.run_dir / "data", self.world)
            self.state = TrainState(self.config, self.world)
            found = self._restore(resume)
            self.skips = read_skips(self.run_dir)
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
            try:
                with self._heartbeat() as self.heartbeat:
                    ended = self._loop()
            except Exception:
                # What was being written is good; but a part of a process that is gone would never come.
                self.saver.wait(_SECONDS_FOR_A_LAST_SAVE)
                raise
            self.saver.wait()
            self.world.wait()
        if self.journal:
            self.journal.event(self.state.step, ended, _ENDS[ended].format(step=self.state.step))
        return ended

    def _loop(self) -> str:
        state, every = self.state, self.config.train
        self.counts = torch.zeros_like(state.model.router_counts(), device="cpu")
        self.experts, terminal = ExpertWatch(self.config.watch.dead_expert_steps), Terminal(every.steps)
        saved_at, stall, asked = state.step, 0.0, Asked.NOTHING
        while state.step < every.steps and asked == Asked.NOTHING:
            self.heartbeat.beat(f"in step {state.step + 1:,}")
            started = time.perf_counter()
            self._enter_phase()
            micro_batches = self._read_batch()
            seconds = {"data": time.perf_counter() - started, "checkpoint": stall}
            phase, stall = state.phase, 0.0

            result = train_step(state, micro_batches, self.world, asked=self.wishes.now())
            result.seconds |= seconds
            asked = result.asked
            if asked == Asked.GIVE_WAY:
                return "superseded"

            if self.journal and (state.step % every.log_every_steps == 0 or result.alarm):
                scalars = self._scalars(result, phase.tokens_per_step)
                self.journal.metrics(state.step, scalars)
                terminal.tell(state.step, scalars)
            self._follow_router(result)
            if result.alarm and self._goes_back(result.alarm):
                continue
            measured = self._evaluate() if every.eval_every_steps and state.step % every.eval_every_steps == 0 else {}
            if self.config.checkpoint.every_steps and state.step % self.config.checkpoint.every_steps == 0:
                stall, saved_at = self._save({"loss": result.loss, **measured}), state.step
        if saved_at != state.step:
            self._save({})
        return "finished" if state.step >= every.steps else ("preempted" if asked == Asked.PREEMPT else "stopped")

    def _read_batch(self) -> list[tuple[Tensor, Tensor]]:
        """This rank's part of the step's batch, in pieces."""
        step = batch_of(self.skips, self.state.step)
        return list(self.feed.mixture.micro_batches(step, self.world.data_rank, self.world.data_size))

    def _follow_router(self, result: StepResult) -> None:
        step = self.state.step
        self.counts += result.counts
        died, revived = self.experts.see(result.counts[:, :-1])
        if self.journal:
            tell_experts(self.journal, step, died, revived, dead_after=self.config.watch.dead_expert_steps)
        if step % self.config.train.router_every_steps == 0:
            if self.journal:
                tell_router(self.journal, step, self.counts, self.state.model.balancing_biases)
            self.counts.zero_()

    def _goes_back(self, alarm: Alarm) -> bool:
        """Do what the config says about a step that went wrong; returns whether the run is at an earlier step now.

        Raises TrainingError where that is to stop.
        """
        step = self.state.step
        if alarm.action == "roll_back" and len(self.skips) < self.config.watch.max_roll_backs:
            self._go_back(alarm)
            return True
        if alarm.action == "go_on":
            done = "its update was left out" if alarm.spares_weights else "the step was taken"
            if self.journal:
                self.journal.event(step, alarm.name, f"{alarm.text} at step {step:,}; {done}, training goes on.")
            return False
        spent = f" It went back {len(self.skips)} times already." if alarm.action == "roll_back" else ""
        remedy = "Lower the learning rates, raise optimizer.warmup_steps, or go on from an earlier checkpoint."
        self._give_up(alarm, f"{alarm.text} at step {step:,}.{spent} {remedy}")

    def _give_up(self, alarm: Alarm, text: str) -> NoReturn:
        if self.journal:
            self.journal.event(self.state.step, alarm.name, text)
        raise TrainingError(text)

    def _go_back(self, alarm: Alarm) -> None:
        """Take up the last checkpoint and leave out the data since."""
        bad_step = self.state.step
        self.heartbeat.pause()
        self.saver.wait()
        self.world.wait()
        if self._restore("latest").folder is None:
            self._give_up(alarm, f"{alarm.text} at step {bad_step:,}, and there is no checkpoint to go back to.")
        step = self.state.step
        if self.world.is_first:
            add_skip(self.run_dir, Skip(step, bad_step - step))
        self.world.wait()
        self.skips = read_skips(self.run_dir)
        self.counts.zero_()
        if self.journal:
            text = (
                f"{alarm.text} at step {bad_step:,}: went back to step {step:,}, without the data of the steps since."
            )
            self.journal.event(bad_step, alarm.name, text, went_back_to=step, batches_left_out=bad_step - step)

    def _save(self, metrics: dict[str, float]) -> float:
        self.heartbeat.pause()
        state = self.state
        return self.saver.save(state.step, state.shared_tensors(), state.own_tensors(), metrics=metrics)

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

    def _evaluate(self) -> dict[str, float]:
        if not self.feed.held_out:
            return {}
        self.heartbeat.beat(f"evaluating after step {self.state.step:,}")
        self.state.shards.settle()
        scalars = evaluate(
            self.state.model, self.feed.held_out, self.world, batches=self.config.train.eval_batches,
            batch_size=self.state.phase.micro_batch_size, precision=self.config.train.precision,
        )  # fmt: skip
        if self.journal:
            self.journal.metrics(self.state.step, scalars)
        return scalars

    def _restore(self, resume: str | None) -> Found:
        """Take up a checkpoint; the first process chooses and checks it, all read it."""
        found = Found()
        if self.world.is_first:
            if resume is None:
                forget_skips(self.run_dir)
            else:
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

    def _heartbeat(self) -> Heartbeat:
        def tell(text: str, silent: list[int]) -> None:
            if self.journal:
                self.journal.event(self.state.step, "stalled", text, silent=silent)

        return Heartbeat(
            self.run_dir / "alive" / f"attempt-{self.attempt:04d}", rank=self.world.rank, size=self.world.size,
            seconds=self.config.watch.stall_seconds, tell=tell,
        )  # fmt: skip


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
