"""Every point leaves as it came, in three formats; a key that is a formula stays text."""

import csv
import io
import json
import math

import pytest
from pyarrow import parquet

from webapp.metrics.export import FORMATS, export_csv, export_json, export_parquet


@pytest.fixture
def measured(run, log_metrics):
    log_metrics(run, 1, loss=[(1, 3.5), (2, math.nan), (3, -math.inf)], lr__muon=[(1, 1e-300)])
    log_metrics(run, 2, loss=[(2, 2.0)])
    return run


def test_csv_has_a_line_a_point_of_all_attempts(measured):
    rows = list(csv.DictReader(io.StringIO(b"".join(export_csv(measured)).decode())))
    told = [(row["key"], row["attempt"], row["step"], row["value"]) for row in rows]
    assert told == [
        ("loss", "1", "1", "3.5"), ("loss", "1", "2", "NaN"), ("loss", "1", "3", "-Infinity"),
        ("loss", "2", "2", "2.0"), ("lr/muon", "1", "1", "1e-300"),
    ]  # fmt: skip
    assert all(row["time"].endswith("Z") for row in rows)


@pytest.mark.parametrize("key", ["=1+1", "+a", "-a", "@sum", "\tx"])
def test_a_key_that_a_spreadsheet_would_compute_is_text_in_csv(run, log_metrics, key):
    log_metrics(run, 1, **{key: [(1, 1.0)]})
    (row,) = csv.DictReader(io.StringIO(b"".join(export_csv(run)).decode()))
    assert row["key"] == f"'{key}"


def test_json_is_one_object_that_any_parser_reads(measured):
    found = json.loads(b"".join(export_json(measured)), parse_constant=pytest.fail)
    assert found["run"] == measured.pk
    assert [(part["key"], part["attempt"], part["steps"], part["values"]) for part in found["series"]] == [
        ("loss", 1, [1, 2, 3], [3.5, "NaN", "-Infinity"]), ("loss", 2, [2], [2.0]), ("lr/muon", 1, [1], [1e-300]),
    ]  # fmt: skip


def test_parquet_has_the_numbers_themselves(measured):
    table = parquet.read_table(io.BytesIO(b"".join(export_parquet(measured)))).to_pylist()
    assert [(row["key"], row["attempt"], row["step"]) for row in table] == [
        ("loss", 1, 1), ("loss", 1, 2), ("loss", 1, 3), ("loss", 2, 2), ("lr/muon", 1, 1),
    ]  # fmt: skip
    assert math.isnan(table[1]["value"])
    assert table[2]["value"] == -math.inf


@pytest.mark.parametrize("kind", FORMATS)
def test_a_run_without_points_is_a_whole_file_without_rows(run, kind):
    data = b"".join(FORMATS[kind][0](run))
    empty = {
        "csv": lambda: len(data.splitlines()) - 1,
        "json": lambda: len(json.loads(data)["series"]),
        "parquet": lambda: parquet.read_table(io.BytesIO(data)).num_rows,
    }
    assert empty[kind]() == 0


def test_some_keys_alone_on_wish(measured):
    assert b"lr/muon" not in b"".join(export_csv(measured, ["loss"]))
