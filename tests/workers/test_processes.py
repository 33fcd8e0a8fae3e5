"""Start, find again, and end a trainer, on this machine."""

import os
import signal
import time

import pytest

from tests.stack import wait_for
from workers.launchers import processes
from workers.launchers.command import command
from workers.launchers.interface import LaunchError
from workers.launchers.place import Place
from workers.launchers.processes import Processes, ProcessTrainer, find, running
from zaya_model.presets import load_preset


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path / "7", 1, 0)


@pytest.fixture
def config():
    return load_preset("tiny-cpu").model_dump(mode="json")


@pytest.fixture
def run_command(place, config, monkeypatch):
    """Start any command in the trainer's stead."""

    def start(*words: str) -> ProcessTrainer:
        monkeypatch.setattr(processes, "command", lambda *_, **__: list(words))
        return Processes(place.run_dir.parent).start(place, config)

    return start


def wait_until_gone(trainer, seconds=10.0):
    deadline = time.monotonic() + seconds
    while trainer.is_alive:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 5", 5), ("kill -9 $$", -9), ("kill -11 $$", -11)])
def test_exit_code_is_known_to_whoever_looks_later(place, run_command, script, code):
    run_command("sh", "-c", script)
    found = find(place)
    wait_until_gone(found)
    assert found.exit_code == code


def test_trainer_is_found_again_and_killed_with_all_its_children(place, run_command):
    run_command("sh", "-c", "sleep 60 & sleep 60")
    found = find(place)
    assert found.is_alive
    found.kill(signal.SIGKILL)
    wait_until_gone(found)
    assert found.exit_code == -signal.SIGKILL


def test_other_process_with_the_same_number_is_not_the_trainer(place, run_command):
    trainer = run_command("sleep", "60")
    stranger = ProcessTrainer(place, trainer.pid, trainer.born - 100, trainer.boot)
    of_another_boot = ProcessTrainer(place, trainer.pid, trainer.born, "another boot")
    assert (stranger.is_watched, of_another_boot.is_watched) == (False, False)
    trainer.kill(signal.SIGKILL)
    wait_until_gone(trainer)


def test_processes_in_sessions_of_their_own_are_killed_too(place, run_command):
    trainer = run_command("sh", "-c", "setsid sleep 60 & setsid sleep 60")
    wait_for(lambda: len(running()[place]) >= 4, "both to sleep")
    trainer.kill(signal.SIGKILL)
    wait_until_gone(trainer)
    assert place not in running()


def test_trainer_lives_on_without_its_shell_but_is_known_to_be_unwatched(place, run_command):
    trainer = run_command("sleep", "60")
    wait_for(lambda: len(running()[place]) == 2, "it to sleep")
    os.kill(trainer.pid, signal.SIGKILL)
    wait_for(lambda: not trainer.is_watched, "the shell to be gone")
    assert trainer.is_alive
    trainer.kill(signal.SIGKILL)
    wait_until_gone(trainer)


def test_secrets_of_the_servers_are_kept_from_the_trainer(place, run_command, monkeypatch):
    monkeypatch.setenv("SECRET_KEY", "s3cret")
    wait_until_gone(run_command("sh", "-c", "echo key=$SECRET_KEY"))
    assert place.log.read_text() == "key=\n"


def test_record_that_cannot_be_written_starts_nothing(place, run_command):
    place.record.mkdir(parents=True)
    (place.record.parent / f"{place.name}.json.new").mkdir()
    with pytest.raises(LaunchError, match="was not written"):
        run_command("touch", str(place.run_dir / "started"))
    assert not (place.run_dir / "started").exists()


def test_what_it_prints_is_in_its_log(place, run_command):
    wait_until_gone(run_command("sh", "-c", "echo out; echo err >&2"))
    assert place.log.read_text() == "out\nerr\n"


def test_nothing_started_is_nothing_found(place):
    assert find(place) is None


def test_old_stop_file_stops_no_new_start(place, run_command):
    place.run_dir.mkdir()
    place.stop_file.touch()
    wait_until_gone(run_command("true"))
    assert not place.stop_file.exists()


def test_folder_that_cannot_be_made_is_said_in_one_sentence(config, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(LaunchError, match=r"could not be started: Not a directory .* Check that"):
        Processes(blocked).start(Place(blocked / "7", 1, 0), config)


def test_one_process_is_started_as_one_would_by_hand(place, config):
    words = command(place, config, place.run_dir / "config.toml", first_node="n1")
    assert words[1:4] == ["-m", "zaya_model", "train"]


def test_several_processes_are_started_by_torchrun(place, config):
    config["parallel"] = {"nodes": 2, "processes_per_node": 4}
    words = command(place, config, place.run_dir / "config.toml", first_node="n1")
    assert words[1:3] == ["-m", "torch.distributed.run"]
    assert "--nproc-per-node=4" in words
    assert "--rdzv-endpoint=n1:29400" in words
