"""The query language: a table of queries against real runs, and the sentence each wrong one gets."""

from datetime import UTC, datetime

import pytest

from webapp.runs.models import Run, RunState
from webapp.runs.query import parse_query
from webapp.runs.query_terms import QueryError, config_fields

pytestmark = pytest.mark.django_db


@pytest.fixture
def ask(operator, viewer, make_run, start, log_metrics):
    """Names of the runs a query finds, out of three."""
    small = make_run("small net", tags=("blue", "two words"), model__hidden_size=64)
    large = make_run("large net", model__hidden_size=512, model__sliding_window=32, model__layer_types=None)
    broken = make_run("100% broken", optimizer__weight_decay=0.25, train__precision="bf16", balance__enabled=False)
    log_metrics(small, 1, loss=[(1, 9.0), (2, 2.0)], eval__loss=[(2, 2.5)])
    log_metrics(large, 1, loss=[(1, 1.0)])
    log_metrics(broken, 1, loss=[(1, float("nan"))])
    change = Run.objects.filter
    change(pk=small.pk).update(state=RunState.RUNNING, step=100)
    change(pk=large.pk).update(created_at=datetime(2020, 5, 17, 12, tzinfo=UTC), priority=1)
    change(pk=broken.pk).update(state=RunState.FAILED, owner=viewer)

    def names(text: str) -> list[str]:
        found = Run.objects.filter(parse_query(text, user=operator)).order_by("pk")
        return [run.name.split()[0] for run in found]

    return names


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", "small large 100%"),
        ("net", "small large"),
        ('"large net"', "large"),
        ("100%", "100%"),
        ("blue", "small"),
        ("victor", "100%"),
        ("name:NET", "small large"),
        ('name="small net"', "small"),
        ("name!=x", "small large 100%"),
        ("state:running", "small"),
        ("state:ACTIVE", "small large"),
        ("state!=failed", "small large"),
        ('tag:"two words"', "small"),
        ("tag!=blue", "large 100%"),
        ("owner:me", "small large"),
        ("owner:victor", "100%"),
        ("preset:tiny-cpu", "small large 100%"),
        ("step>=100", "small"),
        ("priority:high", "large"),
        ("priority<1", "small 100%"),
        ("created:2020-05-17", "large"),
        ("created<=2020-05-17", "large"),
        ("created>2020-05-17", "small 100%"),
        ("created<2020-05-17", ""),
        ("created>=2020-05-17T12:00+00:00", "small large 100%"),
        ("created>7d", "small 100%"),
        ("ended<2100-01-01", ""),
        ("model.hidden_size>=512", "large"),
        ("model.hidden_size<100", "small"),
        ("model.sliding_window<100", "large"),
        ("model.sliding_window:none", "small 100%"),
        ("optimizer.weight_decay=0.25", "100%"),
        ("train.precision:bf16", "100%"),
        ("balance.enabled:false", "100%"),
        ("loss<2.5", "small large"),
        ("loss>1.5", "small"),
        ("loss:nan", "100%"),
        ("loss<5 eval/loss<5", "small"),
        ("not loss<2.5", "100%"),
        ('"eval/loss" < 3', "small"),
        ("nothing/logged<1", ""),
        ("small or large", "small large"),
        ("net and not small", "large"),
        ("large or small and state:failed", "large"),
        ("(large OR small) AND state:running", "small"),
        ("not (small or large)", "100%"),
        ('"or"', ""),
        ("not not small", "small"),
        ("step>9e18", ""),
    ],
)
def test_query_finds(ask, query, found):
    assert ask(query) == found.split()


def test_number_finds_its_run_with_and_without_a_hash(ask, operator):
    wanted = Run.objects.order_by("pk").first()
    for query in (f"#{wanted.pk}", f"id:{wanted.pk}", f"id:#{wanted.pk}"):
        assert list(Run.objects.filter(parse_query(query, user=operator))) == [wanted]


@pytest.mark.parametrize(
    ("query", "place", "words"),
    [
        ("(loss<2", 1, "never closed"),
        ("loss<2)", 7, "closes nothing"),
        ('a "b', 3, "never closed"),
        ("net and", 8, "missing at the end"),
        ("or net", 1, "missing before or"),
        ("()", 2, "missing before )"),
        ("loss<", 6, "value is missing"),
        ("net state:odd", 5, "a state is one of active"),
        ("state<running", 1, "no order"),
        ("stat:running", 1, "did you mean state"),
        ("model.hiden_size>1", 1, "did you mean model.hidden_size"),
        ("model.hidden_size>big", 1, "is a number"),
        ("model.hidden_size>inf", 1, "is a number"),
        ("balance.enabled:maybe", 1, "true or false"),
        ("loss<low", 1, "compared with a number"),
        ("created>yesterday", 1, "is a time such as"),
        ("created>9999-12-31", 1, "is a time such as"),
        ("step>1.5", 1, "whole number"),
        ("id:99999999999999999999", 1, "whole number"),
        ("(" * 40, 31, "levels deep"),
        ("x" * 1001, 1001, "at most 1000 characters"),
    ],
)
def test_wrong_query_is_told_where_and_why(operator, query, place, words):
    with pytest.raises(QueryError, match="At character") as caught:
        parse_query(query, user=operator)
    assert caught.value.place == place
    assert words in str(caught.value)


def test_every_single_valued_field_of_the_config_can_be_asked_for(operator):
    values = {int: "1", float: "0.5", bool: "true", str: "x"}
    for name, kind in config_fields().items():
        assert not Run.objects.filter(parse_query(f"{name}:{values[kind]}", user=operator)).exists()


@pytest.mark.parametrize("hostile", ["\x00", "'; drop table", "{}", "a\\b", "!", "::", "=", "<script>", "名前"])
def test_hostile_text_is_a_query_or_a_sentence(operator, run, hostile):
    try:
        list(Run.objects.filter(parse_query(hostile, user=operator)))
    except QueryError as error:
        sentence = str(error)
    else:
        sentence = "."
    assert sentence.endswith(".")
