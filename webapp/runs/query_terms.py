"""What each term of a query means: the run's own fields, fields of the config, newest values of metrics, free text."""

import difflib
import math
import re
import types
import typing
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from webapp.accounts.models import User
from webapp.runs.models import ACTIVE, WAITING, Priority, Run, RunState
from zaya_model.config import RunConfig

_LOOKUPS = {":": "", "=": "", "!=": "", "<": "__lt", "<=": "__lte", ">": "__gt", ">=": "__gte"}
_AGO = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class QueryError(ValueError):
    """A query that means nothing; the message is one sentence, `place` the character (from 1) it is about."""

    def __init__(self, place: int, sentence: str) -> None:
        self.place = place
        super().__init__(f"At character {place}: {sentence}")


class Term(typing.NamedTuple):
    """A comparison, with the place it was written at."""

    field: str
    op: str
    value: str
    place: int

    def wrong(self, sentence: str) -> QueryError:
        return QueryError(self.place, sentence)


def search(text: str) -> Q:
    number = text.removeprefix("#")
    is_number = number.isascii() and number.isdecimal() and len(number) < 18
    by_number = Q(pk=int(number)) if is_number else Q()
    return Q(name__icontains=text) | Q(tags__contains=[text]) | Q(owner__username__iexact=text) | by_number


def compare(term: Term, user: User) -> Q:
    if term.field in FIELDS:
        return FIELDS[term.field](term, user)
    if term.field in config_fields():
        return _config(term)
    if term.field.split(".")[0] in RunConfig.model_fields and "." in term.field:
        raise term.wrong(f"the config has no field {term.field}{_nearest(term.field)}.")
    if term.op in (":", "=") and _float(term.value) is None:
        raise term.wrong(f"there is no field {term.field}{_nearest(term.field)}; put text in quotes to look for it.")
    return _metric(term)


def _nearest(name: str) -> str:
    close = difflib.get_close_matches(name, field_names(), n=1)
    return f", did you mean {close[0]}" if close else ""


# One function for each kind of field; each gives the Q of a term.


def _matches(column: str, term: Term, value: object) -> Q:
    """Column against value by the term's operator."""
    found = Q(**{f"{column}{_LOOKUPS[term.op]}": value})
    return ~found if term.op == "!=" else found


def _only_equal(term: Term) -> None:
    if term.op not in (":", "=", "!="):
        raise term.wrong(f"{term.field} is text and has no order; use {term.field}:{term.value}.")


def _name(term: Term, user: User) -> Q:
    _only_equal(term)
    return Q(name__icontains=term.value) if term.op == ":" else _matches("name", term, term.value)


def _tag(term: Term, user: User) -> Q:
    _only_equal(term)
    found = Q(tags__contains=[term.value])
    return ~found if term.op == "!=" else found


def _owner(term: Term, user: User) -> Q:
    _only_equal(term)
    return _matches("owner__username", term, user.username if term.value == "me" else term.value)


def _preset(term: Term, user: User) -> Q:
    _only_equal(term)
    return _matches("preset", term, term.value)


def _state(term: Term, user: User) -> Q:
    _only_equal(term)
    groups = {"active": (*WAITING, *ACTIVE), "waiting": WAITING} | {state: (state,) for state in RunState.values}
    if term.value.lower() not in groups:
        raise term.wrong(f"no run can be {term.value}; a state is one of {', '.join(groups)}.")
    found = Q(state__in=groups[term.value.lower()])
    return ~found if term.op == "!=" else found


def _priority(term: Term, user: User) -> Q:
    names = {member.name.lower(): member.value for member in Priority}
    name = term.value.lower()
    return _matches("priority", term, names[name] if name in names else _whole(term))


def _number(column: str) -> Callable[[Term, User], Q]:
    return lambda term, user: _matches(column, term, _whole(term))


def _time(column: str) -> Callable[[Term, User], Q]:
    """A day (the whole of it), a moment, or an age such as 7d: `created>7d` is younger than a week."""

    def compare(term: Term, user: User) -> Q:
        first, last = _span(term)
        after, before = Q(**{f"{column}__gte": last}), Q(**{f"{column}__lt": first})
        known = Q(**{f"{column}__isnull": False})
        return {
            "<": before, ">": after, "<=": known & ~after, ">=": known & ~before,
            "!=": before | after, ":": known & ~before & ~after, "=": known & ~before & ~after,
        }[term.op]  # fmt: skip

    return compare


def _span(term: Term) -> tuple[datetime, datetime]:
    """The first moment a time means, and the first after it: a day for a date, else a minute; an age is a moment."""
    if (age := re.fullmatch(r"(\d{1,5})([mhdw])", term.value)) is not None:
        moment = timezone.now() - timedelta(**{_AGO[age[2]]: int(age[1])})
        return moment, moment
    try:
        moment = datetime.fromisoformat(term.value)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        return moment, moment + (timedelta(days=1) if len(term.value) <= 10 else timedelta(minutes=1))
    except (ValueError, OverflowError):
        sentence = f"{term.field} is a time such as 2026-01-31, 2026-01-31T12:00 or 7d (ago), not {term.value}."
        raise term.wrong(sentence) from None


def _config(term: Term) -> Q:
    kind, column = config_fields()[term.field], f"config__{term.field.replace('.', '__')}"
    if term.value.lower() == "none" and term.op in (":", "=", "!="):
        return _matches(column, term, None)
    if kind is bool:
        _only_equal(term)
        if term.value.lower() not in ("true", "false"):
            raise term.wrong(f"{term.field} is true or false, not {term.value}.")
        return _matches(column, term, term.value.lower() == "true")
    if kind is str:
        _only_equal(term)
        return _matches(column, term, term.value)
    value = _float(term.value)
    if value is None or not math.isfinite(value):
        raise term.wrong(f"{term.field} is a number, not {term.value}.")
    found = _matches(column, term, int(value) if value.is_integer() else value)
    # To Postgres a null of JSON is less than every number.
    return found & ~Q(**{column: None}) if term.op in ("<", "<=") else found


def _metric(term: Term) -> Q:
    """The newest value of a scalar; runs that never logged it do not match. NaN is neither great nor small."""
    value = _float(term.value)
    if value is None:
        raise term.wrong(f"{term.field} is a metric and is compared with a number, not with {term.value}.")
    holds = _matches("last_value", term, value)
    if term.op in (">", ">="):
        holds &= Q(last_value__lte=math.inf)
    return Q(Exists(series_of_outer_run().filter(holds, key=term.field)))


def series_of_outer_run() -> QuerySet:
    """Series of the run of the query around; found by its relation, since metrics stand above runs."""
    series = Run._meta.get_field("series").related_model
    return series.objects.filter(run=OuterRef("pk"))


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _whole(term: Term) -> int:
    value = _float(term.value.removeprefix("#"))
    if value is None or not value.is_integer() or abs(value) >= 2**63:
        raise term.wrong(f"{term.field} is a whole number, not {term.value}.")
    return int(value)


FIELDS: dict[str, Callable[[Term, User], Q]] = {
    "state": _state,
    "name": _name,
    "tag": _tag,
    "owner": _owner,
    "preset": _preset,
    "id": _number("pk"),
    "step": _number("step"),
    "restarts": _number("restarts"),
    "priority": _priority,
    "created": _time("created_at"),
    "started": _time("started_at"),
    "ended": _time("ended_at"),
}


@cache
def config_fields() -> dict[str, type]:
    """Every field of the config that holds one value, by its dotted name: int, float, bool or str."""
    found = {}
    for section, outer in RunConfig.model_fields.items():
        for name, inner in getattr(outer.annotation, "model_fields", {}).items():
            kind = _scalar(inner.annotation)
            if kind is not None:
                found[f"{section}.{name}"] = kind
    return found


def _scalar(annotation: object) -> type | None:
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        kinds = [kind for kind in typing.get_args(annotation) if kind is not types.NoneType]
        return _scalar(kinds[0]) if len(kinds) == 1 else None
    if typing.get_origin(annotation) is typing.Literal:
        return str
    return annotation if annotation in (int, float, bool, str) else None


def field_names() -> list[str]:
    """Names that may stand before an operator, without the metrics."""
    return [*FIELDS, *config_fields()]
