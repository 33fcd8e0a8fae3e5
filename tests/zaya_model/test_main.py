"""The command line: every verb helps itself, errors are sentences, results can be JSON."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from tests.zaya_model.conftest import TINY
from tests.zaya_model.runs import events
from zaya_model.__main__ import VERBS, main
from zaya_model.journal import read_journal
from zaya_model.model.router import SKIP_BIAS
from zaya_model.presets import build, to_toml


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.toml"
    path.write_text(to_toml(build(TINY)))
    return str(path)


@pytest.fixture
def trained(tmp_path: Path, config: str, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["train", config, "--run-dir", str(tmp_path / "run"), "--set", "train.steps=3"]) == 0
    capsys.readouterr()
    return tmp_path / "run"


def said(capsys: pytest.CaptureFixture[str]) -> dict:
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([verb, "--help"])
    assert ended.value.code == 0
    assert "--json" in capsys.readouterr().out


def test_help_loads_no_torch() -> None:
    code = "import sys, zaya_model.__main__ as m\ntry: m.main(['train', '--help'])\nexcept SystemExit: pass\n"
    code += "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_training_loads_no_compiler_and_no_transformers(config: str, tmp_path: Path) -> None:
    code = (
        "import sys, zaya_model.__main__ as m\n"
        f"m.main(['train', {config!r}, '--run-dir', {str(tmp_path / 'lean')!r}, '--set', 'train.steps=1'])\n"
        "heavy = {'torch._dynamo', 'torch._inductor', 'transformers', 'tokenizers', 'pyarrow'}\n"
        "sys.exit(' '.join(heavy & set(sys.modules)) or None)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_train_says_how_it_ended(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", config, "--run-dir", str(tmp_path / "run"), "--json", "--set", "train.steps=2"]) == 0
    assert said(capsys) == {"ended": "finished", "run_dir": str(tmp_path / "run")}
    assert (tmp_path / "run" / "config.toml").read_text().count("\nsteps = 2\n") == 1


def test_a_preset_trains_by_its_name(tmp_path: Path) -> None:
    flags = ["--set", "train.steps=1", "--set", "train.global_batch_size=1", "--set", "train.micro_batch_size=1"]
    assert main(["train", "tiny-cpu", "--run-dir", str(tmp_path), *flags]) == 0


@pytest.mark.parametrize(
    ("flags", "code", "sentence"),
    [
        (["--set", "train.lerning_rate=1"], 2, "train.lerning_rate: there is no such field"),
        (["--set", "train.steps=many"], 2, "train.steps: input should be a valid integer"),
        (["--set", "train.steps"], 2, "write it as section.key=value"),
        (["--set", "data.path=/nowhere"], 3, "There is no file /nowhere."),
        (["--resume", "7"], 4, "There is no checkpoint of step 7; there are: none."),
        (["--resume", "soon"], 1, "--resume takes a step number"),
        (["--set", "train.device=gpu"], 2, "train.device: no GPU is visible here"),
    ],
)
def test_a_mistake_is_one_sentence_here_and_in_the_journal(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], code: int, sentence: str
) -> None:
    run_dir = tmp_path / "run"
    run_dir.mkdir()
    assert main(["train", config, "--run-dir", str(run_dir), *flags]) == code
    errors = capsys.readouterr().err
    assert sentence in errors
    assert "Traceback" not in errors
    assert sentence in [record["text"] for record in read_journal(run_dir) if record["kind"] == "event"][-1]


def test_a_run_folder_that_cannot_be_made_is_named(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["train", config, "--run-dir", str(tmp_path / "file" / "run")]) == 1
    assert "cannot be written: Not a directory." in capsys.readouterr().err


def test_a_stop_file_left_over_does_not_stop_a_run_started_by_hand(trained: Path, config: str) -> None:
    (trained / "stop").touch()
    assert main(["train", config, "--run-dir", str(trained), "--resume"]) == 0
    assert events(trained)[-1] == "finished"


def test_a_stop_file_is_obeyed_when_somebody_numbers_the_attempts(trained: Path, config: str) -> None:
    (trained / "stop").touch()
    assert main(["train", config, "--run-dir", str(trained), "--resume", "--attempt", "7"]) == 0
    assert events(trained)[-1] == "stopped"
    assert (trained / "journal" / "attempt-0007-node-0000.jsonl").exists()


def test_eval_gives_what_training_said(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(trained), "--batches", "2", "--json"]) == 0
    found = said(capsys)
    values = [r["values"] for r in read_journal(trained) if r["kind"] == "metrics" and "eval/loss" in r["values"]][-1]
    assert found["loss"] == pytest.approx(values["eval/loss"], rel=1e-5)
    assert found["bits_per_byte"] == pytest.approx(values["eval/bits_per_byte"], rel=1e-5)
    assert found["step"] == 3


def test_eval_reads_another_text(trained: Path, text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(trained), "--data", str(text), "--json"]) == 0
    assert said(capsys)["tokens"] > 1000


def test_generate_goes_on_with_a_prompt(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", str(trained), "--prompt", "Call me", "--tokens", "5", "--json"]) == 0
    assert said(capsys)["text"].startswith("Call me")


def test_export_and_import_bring_the_model_back(
    trained: Path, config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(trained), str(tmp_path / "hf")]) == 0
    assert main(["import", str(tmp_path / "hf"), config, "--run-dir", str(tmp_path / "again"), "--json"]) == 0
    capsys.readouterr()
    losses = []
    for folder in (trained, tmp_path / "again"):
        assert main(["eval", str(folder), "--batches", "1", "--json"]) == 0
        losses.append(said(capsys)["loss"])
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert main(["train", config, "--run-dir", str(tmp_path / "again"), "--resume", "--set", "train.steps=1"]) == 0


def test_export_says_where_a_document_ends_and_keeps_the_skip_bias_transformers_will_set(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moving = ["--set", "balance.include_skip=true", "--set", "train.steps=3"]
    assert main(["train", config, "--run-dir", str(tmp_path / "run"), *moving]) == 0
    capsys.readouterr()
    assert main(["export", str(tmp_path / "run"), str(tmp_path / "hf"), "--json"]) == 0
    assert said(capsys)["eos_token_id"] == 256
    assert json.loads((tmp_path / "hf" / "config.json").read_text())["eos_token_id"] == 256
    weights = load_file(tmp_path / "hf" / "model.safetensors")
    biases = [bias for name, bias in weights.items() if name.endswith("balancing_biases")]
    assert [bias[-1].item() for bias in biases] == [SKIP_BIAS] * len(biases) != []


def test_verify_checkpoint_names_the_damaged_one(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify-checkpoint", str(trained), "--json"]) == 0
    assert said(capsys)["ok"]
    shard = next((trained / "checkpoints" / "step-00000003").glob("*.safetensors"))
    shard.write_bytes(b"")
    assert main(["verify-checkpoint", str(trained), "--json"]) == 1
    assert "0 bytes instead of" in said(capsys)["checkpoints"]["step-00000003"]


def test_plan_prints_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "zaya1-base", "--nodes", "2", "--json"]) == 0
    found = said(capsys)
    assert found["parameters"]["total"] == 8_840_488_784
    assert found["cluster"]["nodes"] == 2


def test_prepare_data_is_trained_on_and_checked(
    text: Path, config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "tokens"
    assert (
        main(["prepare-data", str(text), "--out", str(folder), "--train-bpe", "300", "--processes", "1", "--json"]) == 0
    )
    found = said(capsys)
    assert found["num_documents"] == 1
    assert main(["prepare-data", "--verify", "--out", str(folder), "--json"]) == 0
    capsys.readouterr()
    sets = [f"data.path={folder}", "model.vocab_size=300", "train.steps=1"]
    flags = [flag for assignment in sets for flag in ("--set", assignment)]
    assert main(["train", config, "--run-dir", str(tmp_path / "run"), *flags]) == 0
    assert main(["generate", str(tmp_path / "run"), "--tokens", "2"]) == 0


def test_prepare_data_with_a_wrong_field_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.jsonl").write_text('{"body": "x"}\n')
    assert main(["prepare-data", str(tmp_path / "a.jsonl"), "--out", str(tmp_path / "out")]) == 3
    assert "it has: body" in capsys.readouterr().err
