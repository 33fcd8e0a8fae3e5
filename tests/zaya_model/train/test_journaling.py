"""Telling never stops the training."""

import os
from pathlib import Path

import pytest

from zaya_model.journal import parse
from zaya_model.train.journaling import PatientJournal


def test_a_full_disk_loses_records_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = os.write

    def full(file: int, data: bytes) -> int:
        if len(data) > 10:
            real(file, data[:10])
        raise OSError(28, "No space left on device")

    path = tmp_path / "journal.jsonl"
    with PatientJournal(path, 1) as journal:
        journal.log(1, "before")
        with monkeypatch.context() as patched:
            patched.setattr(os, "write", full)
            journal.log(2, "lost")
            journal.log(3, "lost too")
        journal.log(4, "after")
        journal.log(5, "and on")
    found = []
    for line in path.read_bytes().splitlines():
        try:
            found.append(parse(line)["text"])
        except ValueError:
            continue
    assert found == ["before", "after", "and on"]
    assert capsys.readouterr().err.count("records are being lost") == 1
