"""A run from its first step to its last: journal, checkpoints, stop, resume."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.zaya_model.runs import events, losses, records
from zaya_model.checkpoint.manifest import folder_of, read_manifest
from zaya_model.checkpoint.restore import read_tensors
from zaya_model.config import RunConfig
from zaya_model.errors import CheckpointError, ConfigError, DataError
from zaya_model.train import loop
from zaya_model.train.loop import train

Tiny = Callable[..., RunConfig]


def saved(run_dir: Path, step: int) -> dict[str, torch.Tensor]:
    folder = folder_of(run_dir, step)
    return read_tensors(folder, read_manifest(folder))


def stop_at(step: int, run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the stop file into the run's folder when a step begins."""
    real = loop.train_step

    def stepping(state, *arguments, **keywords):
        result = real(state, *arguments, **keywords)
        if state.step == step:
            (run_dir / "stop").touch()
        return result

    monkeypatch.setattr(loop, "train_step", stepping)


def test_a_run_tells_its_whole_story(tiny: Tiny, tmp_path: Path) -> None:
    assert train(tiny(), tmp_path) == "finished"
    assert events(tmp_path) == ["started", "phase", "finished"]
    assert sorted(losses(tmp_path)) == [1, 2, 3, 4, 5, 6]
    assert [r["step"] for r in records(tmp_path, "metrics") if "eval/loss" in r["values"]] == [3, 6]
    statuses = [(r["step"], r["status"]) for r in records(tmp_path, "checkpoint")]
    assert statuses == [(step, status) for step in (3, 6) for status in ("saving", "durable", "verified")]


def test_the_first_record_says_what_a_reader_needs(tiny: Tiny, tmp_path: Path) -> None:
    train(tiny(train__steps=1), tmp_path)
    data = records(tmp_path, "event")[0]["data"]
    assert data["tokens_per_step"] == 4 * 16
    assert data["total_steps"] == 1
    assert data["processes"] == 1
    assert data["parameters"] > data["active_parameters"] > 0
    assert data["peak_flops"]["mfu"] > 1e9
    assert data["flops_per_token"] > 0


def test_every_step_says_losses_norms_rates_times_and_balance(tiny: Tiny, tmp_path: Path) -> None:
    train(tiny(train__steps=2), tmp_path)
    values = records(tmp_path, "metrics")[-1]["values"]
    assert {
        "loss", "grad_norm", "grad_norm/router", "grad_norm/experts", "grad_norm/attention", "grad_norm/embedding",
        "lr/muon", "lr/adamw", "tokens", "tokens_per_second", "step_seconds", "time/data", "time/forward_backward",
        "time/optimizer", "time/checkpoint", "mfu", "flops_per_second", "router/max_violation", "router/entropy",
        "router/dead_experts", "router/skip_share",
    } <= values.keys()  # fmt: skip
    assert values["tokens"] == 2 * 64
    assert 0 < values["mfu"] <= 1
    assert "mfu_spec" not in values
    assert values["grad_norm/router"] > 0


def test_router_records_count_every_token_since_the_last(tiny: Tiny, tmp_path: Path) -> None:
    train(tiny(train__router_every_steps=3), tmp_path)
    found = records(tmp_path, "router")
    assert [record["step"] for record in found] == [3, 6]
    for record in found:
        assert record["tokens"] == 3 * 64
        for layer, skipped in zip(record["load"], record["skipped"], strict=True):
            assert sum(layer) + skipped == record["tokens"]
        assert [len(bias) for bias in record["bias"]] == [5, 5]


def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(tiny: Tiny, tmp_path: Path) -> None:
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    config = tiny(train__steps=20, checkpoint__every_steps=10, train__eval_every_steps=0)
    train(config, straight)
    with pytest.MonkeyPatch.context() as monkeypatch:
        stop_at(10, broken, monkeypatch)
        assert train(config, broken) == "stopped"
    (broken / "stop").unlink()
    assert train(config, broken, resume="latest") == "finished"
    assert losses(straight) == losses(broken)
    expected, found = saved(straight, 20), saved(broken, 20)
    assert expected.keys() == found.keys()
    for name, tensor in expected.items():
        assert torch.equal(tensor, found[name]), name


def test_the_stop_file_ends_the_run_after_a_checkpoint(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at(2, tmp_path, monkeypatch)
    assert train(tiny(), tmp_path) == "stopped"
    # Seen while the next step runs: agreeing on it costs no message of its own.
    assert records(tmp_path, "event")[-1]["step"] == 3
    assert records(tmp_path, "checkpoint")[-1]["status"] == "verified"


def test_an_attempt_that_finds_a_newer_one_in_its_folder_ends_and_saves_nothing(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = loop.train_step

    def stepping(state, *arguments, **keywords):
        if state.step == 3:
            (tmp_path / "attempt").write_text("2")
        return real(state, *arguments, **keywords)

    monkeypatch.setattr(loop, "train_step", stepping)
    assert train(tiny(), tmp_path, attempt=1) == "superseded"
    assert events(tmp_path)[-1] == "superseded"
    assert [r["step"] for r in records(tmp_path, "checkpoint") if r["status"] == "verified"] == [3]


@pytest.mark.parametrize(("number", "end"), [(signal.SIGTERM, "preempted"), (signal.SIGINT, "stopped")])
def test_a_signal_ends_the_run_after_a_checkpoint(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, end: str
) -> None:
    real = loop.train_step

    def stepping(*arguments, **keywords):
        signal.raise_signal(number)
        return real(*arguments, **keywords)

    monkeypatch.setattr(loop, "train_step", stepping)
    assert train(tiny(), tmp_path) == end
    assert events(tmp_path)[-1] == end


def test_a_damaged_checkpoint_is_named_and_the_one_before_is_taken(tiny: Tiny, tmp_path: Path) -> None:
    train(tiny(), tmp_path)
    shard = next(folder_of(tmp_path, 6).glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-7])
    train(tiny(train__steps=8), tmp_path, resume="latest")
    told = {r["name"]: r for r in records(tmp_path, "event")}
    assert "step-00000006" in told["checkpoint_refused"]["text"]
    assert told["resumed"]["data"]["from_step"] == 3


def test_without_a_whole_checkpoint_latest_starts_afresh_and_says_so(tiny: Tiny, tmp_path: Path) -> None:
    train(tiny(train__steps=2), tmp_path, resume="latest")
    first = records(tmp_path, "event")[0]
    assert first["name"] == "started"
    assert "no whole checkpoint" in first["text"]


def test_a_step_that_is_not_there_is_refused_and_journaled(tiny: Tiny, tmp_path: Path) -> None:
    train(tiny(train__steps=3), tmp_path)
    with pytest.raises(CheckpointError, match="no checkpoint of step 2; there are: 3"):
        train(tiny(), tmp_path, resume="2")
    assert records(tmp_path, "event")[-1]["name"] == "failed"


def test_going_on_from_an_older_step_gives_the_newer_ones_up(tiny: Tiny, tmp_path: Path) -> None:
    train(tiny(), tmp_path)
    train(tiny(train__steps=4, checkpoint__every_steps=0), tmp_path, resume="3")
    removed = [r["step"] for r in records(tmp_path, "checkpoint") if r["status"] == "removed"]
    assert removed == [6]
    train(tiny(train__steps=5, checkpoint__every_steps=0), tmp_path, resume="latest")
    assert records(tmp_path, "event")[-3]["data"]["from_step"] == 4


def test_a_checkpoint_of_another_model_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    train(tiny(train__steps=3), tmp_path)
    with pytest.raises(CheckpointError, match="does not fit this config"):
        train(tiny(model__hidden_size=48), tmp_path, resume="latest")


def test_a_save_that_fails_is_told_and_training_goes_on(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("zaya_model.checkpoint.save.write_shard", full)
    assert train(tiny(), tmp_path) == "finished"
    assert "checkpoint_failed" in events(tmp_path)
    failed = [r for r in records(tmp_path, "checkpoint") if r["status"] == "failed"]
    assert [r["step"] for r in failed] == [3, 6]
    assert failed[0]["reason"] == "No space left on device"


def test_missing_data_is_journaled_in_one_sentence(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(DataError):
        train(tiny(data__path="/nowhere/text.txt"), tmp_path)
    assert records(tmp_path, "event")[0]["text"] == "There is no file /nowhere/text.txt."


def test_a_vocabulary_too_small_for_the_data_names_the_field(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.vocab_size: .* needs at least 257"):
        train(tiny(model__vocab_size=100), tmp_path)


def test_an_unknown_fault_is_journaled_too(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("gone")

    monkeypatch.setattr(loop, "train_step", broken)
    with pytest.raises(KeyError):
        train(tiny(), tmp_path)
    assert records(tmp_path, "event")[-1]["text"] == "KeyError: 'gone'"


def test_phases_change_length_rates_rope_and_data_at_their_borders(tiny: Tiny, tmp_path: Path, text: Path) -> None:
    phases = [
        {"name": "short", "steps": 2},
        {
            "name": "long", "steps": 2, "sequence_length": 32, "rope_theta": 1e6, "muon_learning_rate": 1e-5,
            "mix": {"demo": 1.0, str(text): 3.0},
        },
    ]  # fmt: skip
    config = tiny(train__phases=phases, train__steps=4, train__eval_every_steps=4)
    train(config, tmp_path / "run")
    told = [r["data"] for r in records(tmp_path / "run", "event") if r["name"] == "phase"]
    assert [(t["phase"], t["sequence_length"], t["rope_theta"]) for t in told] == [
        ("short", 16, 1e4),
        ("long", 32, 1e6),
    ]
    values = [r["values"] for r in records(tmp_path / "run", "metrics")]
    assert [v["tokens"] for v in values if "loss" in v] == [64, 128, 256, 384]
    assert values[2]["lr/muon"] == pytest.approx(1e-5)
    assert f"eval/loss/{text}" in values[-1]


def test_a_run_resumed_within_its_second_phase_is_exact(tiny: Tiny, tmp_path: Path) -> None:
    phases = [{"name": "a", "steps": 3}, {"name": "b", "steps": 5, "sequence_length": 32, "rope_theta": 1e6}]
    config = tiny(train__phases=phases, train__steps=8, checkpoint__every_steps=5, train__eval_every_steps=0)
    train(config, tmp_path / "straight")
    with pytest.MonkeyPatch.context() as monkeypatch:
        stop_at(4, tmp_path / "broken", monkeypatch)
        train(config, tmp_path / "broken")
    (tmp_path / "broken" / "stop").unlink()
    train(config, tmp_path / "broken", resume="latest")
    assert losses(tmp_path / "straight") == losses(tmp_path / "broken")


def test_products_in_bf16_train_as_those_in_fp32_do(tiny: Tiny, tmp_path: Path) -> None:
    for precision in ("fp32", "bf16"):
        train(tiny(train__precision=precision), tmp_path / precision)
    assert losses(tmp_path / "bf16") == pytest.approx(losses(tmp_path / "fp32"), rel=0.02)
    assert losses(tmp_path / "bf16") != losses(tmp_path / "fp32")
    assert all(tensor.dtype != torch.bfloat16 for tensor in saved(tmp_path / "bf16", 6).values())


def test_micro_batches_add_up_to_the_whole_batch(tiny: Tiny, tmp_path: Path) -> None:
    for size in (1, 4):
        train(tiny(train__micro_batch_size=size), tmp_path / str(size))
    assert losses(tmp_path / "1") == pytest.approx(losses(tmp_path / "4"), abs=1e-5)
    loads = [[r["load"] for r in records(tmp_path / size, "router")] for size in ("1", "4")]
    assert loads[0] == loads[1]
