"""The query language over runs: text in, one Django Q out, or one sentence that says what is wrong and where.

    query       groups joined by `or`
    group       terms joined by `and` or by nothing
    term        `not` term | ( query ) | field op value | text
    op          : = != < <= > >=

A field is one of the run's own, one of the config (`model.hidden_size`), or the key of a metric, which stands for its
newest value. Text is looked for in name, tags, owner and number.
"""

import re

from django.db.models import Q

from webapp.accounts.models import User
from webapp.runs.query_terms import QueryError, Term, compare, search
from webapp.text import storable

MOST_CHARACTERS = 1000
_DEEPEST = 30
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<paren>[()])
      | (?P<field>"[^"]+"|[^\s()"<>=:!]+) \s* (?P<op>>=|<=|!=|[:=<>]) \s* (?P<value>"[^"]*"|[^\s()"]*)
      | (?P<text>"[^"]*"|[^\s()"]+)
      | (?P<odd>\S)
    )""",
    re.VERBOSE,
)


def parse_query(text: str, *, user: User) -> Q:
    """What the text asks for; `user` is who `me` means. Nothing asks for everything. Raises QueryError."""
    if len(text) > MOST_CHARACTERS:
        raise QueryError(
            MOST_CHARACTERS + 1, f"a query has at most {MOST_CHARACTERS} characters, this has {len(text)}."
        )
    return _Parser(storable(text), user).parse()


class _Parser:
    """Recursive descent, one method a line of the grammar."""

    def __init__(self, text: str, user: User) -> None:
        self.tokens = list(_TOKEN.finditer(text.rstrip()))
        self.end = len(text.rstrip()) + 1
        self.user = user
        self.at = self.depth = 0

    def parse(self) -> Q:
        if not self.tokens:
            return Q()
        found = self._query()
        if self.at < len(self.tokens):
            raise QueryError(self._place(), "this ) closes nothing; remove it.")
        return found

    def _query(self) -> Q:
        found = self._group()
        while self._take("or"):
            found |= self._group()
        return found

    def _group(self) -> Q:
        found = self._term()
        while self._take("and") or self._peek() not in ("", ")", "or"):
            found &= self._term()
        return found

    def _term(self) -> Q:
        self.depth += 1
        if self.depth > _DEEPEST:
            raise QueryError(self._place(), f"this is more than {_DEEPEST} levels deep; write it flatter.")
        found = ~self._term() if self._take("not") else self._parenthesis() if self._take("(") else self._leaf()
        self.depth -= 1
        return found

    def _parenthesis(self) -> Q:
        opened = self.tokens[self.at - 1].start("paren") + 1
        found = self._query()
        if not self._take(")"):
            raise QueryError(opened, "this ( is never closed; add a ).")
        return found

    def _leaf(self) -> Q:
        place, word = self._place(), self._peek()
        if word in ("", ")", "and", "or"):
            before = f"before {word}" if word else "at the end"
            raise QueryError(place, f"something to look for is missing {before}.")
        token = self.tokens[self.at]
        self.at += 1
        if token["odd"]:
            raise QueryError(place, 'this " is never closed; add another.')
        if token["text"]:
            return search(_unquoted(token["text"]))
        if not token["value"]:
            raise QueryError(token.end() + 1, f"a value is missing after {token['field']}{token['op']}.")
        term = Term(_unquoted(token["field"]), token["op"], _unquoted(token["value"]), place)
        return compare(term, self.user)

    def _peek(self) -> str:
        """The next token where it is a keyword or parenthesis, "" at the end, else something that is neither."""
        if self.at == len(self.tokens):
            return ""
        token = self.tokens[self.at]
        word = (token["paren"] or token["text"] or "").lower()
        return word if word in ("(", ")", "and", "or", "not") else "a term"

    def _take(self, word: str) -> bool:
        is_next = self._peek() == word
        self.at += is_next
        return is_next

    def _place(self) -> int:
        if self.at == len(self.tokens):
            return self.end
        token = self.tokens[self.at]
        return token.start(token.lastgroup if token.lastgroup != "value" else "field") + 1


def _unquoted(text: str) -> str:
    return text.strip('"')
