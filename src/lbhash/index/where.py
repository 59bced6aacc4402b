"""Filters over metadata: a mapping from columns to values, or a text like SQL's ``where`` clause.

A condition is ``NAME = VALUE``, also with ``!=``, ``<``, ``<=``, ``>`` or ``>=``, ``NAME between VALUE and VALUE``,
``NAME [not] in (VALUE, …)``, ``NAME [not] like PATTERN`` or ``NAME is [not] null``. Conditions are joined by ``and``,
``or`` and parentheses: ``color in (red, blue) and (title like "%shoe%" or price is null)``. ``and`` binds more closely
than ``or``. In a pattern, ``%`` stands for any text and ``_`` for one character. Unlike SQL, ``20 <= price < 50`` is a
range, and a comma is an ``and``. There is no ``not`` before a parenthesis.

The column ``id`` has the ids. Quote a name or value that contains a comma, a parenthesis, an operator or one of the
words above; double a quote inside it. A value is read in the type of its column. A null passes only ``is null``. NaN
equals NaN, and is neither smaller nor larger than a number. In a column of lists, one value must pass; for ``!=``,
``not in`` and ``not like``, all must.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from lbhash.utils.validation import check_type

Where: TypeAlias = Mapping[str, Any] | str
"""A filter: a text, or a mapping from columns to the allowed value or a list of allowed values."""


class Condition(NamedTuple):
    """A condition on a column.

    ``how`` is in, not in, <, <=, >, >=, like, not like, is null or is not null; ``values`` are compared with.
    """

    column: str
    how: str
    values: Sequence[Any] = ()


class Either(NamedTuple):
    """Alternative filters: a code must pass at least one."""

    choices: Sequence[Filter]


Filter: TypeAlias = Sequence[Condition | Either]
"""Conditions that a code must all pass."""

_TOKEN = re.compile(
    r"""\s*(?: (?P<quoted> "(?:[^"]|"")*" | '(?:[^']|'')*' )
             | (?P<null> is\s+(?:not\s+)?null (?![^\s,)]) )
             | (?P<among> (?:not\s+)?in (?=\s*\() )
             | (?P<like> (?:not\s+)?like (?!\S) )
             | (?P<between> between (?!\S) )
             | (?P<order> <=|>=|!=|<>|==?|<|> )
             | (?P<mark> [(),] )
             | (?P<and> and (?![^\s(]) )
             | (?P<or> or (?![^\s(]) )
             | (?P<word> (?:[^\s<>=!(),"'] | !(?!=)) (?:[^\s<>=!(),] | !(?!=))* )
             | (?P<other> \S ) )""",
    re.VERBOSE | re.IGNORECASE,
)
_KINDS = {"quoted": "w", "word": "w", "null": "n", "among": "i", "like": "l", "between": "b", "order": "o"}
_KINDS |= {"and": ",", "or": "|", "other": "?"}
_CONDITION = re.compile(r"wowow|wbw,w|wow|wlw|wn|wi\(w(?:,w)*\)")
"""The token kinds of each form of condition."""
_EQUAL = {"=": "in", "==": "in", "!=": "not in", "<>": "not in"}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_DEEPEST = 16  # nested parentheses


def conditions(where: Where | None) -> Filter:
    """Return the conditions of a filter; ``ValueError`` or ``TypeError`` if it cannot be read."""
    if isinstance(where, str):
        return _parse(where)
    check_type(where, "where", (Mapping, NoneType), "a text, or a mapping from columns to values")
    found = []
    for column, wanted in (where or {}).items():
        to_list = getattr(wanted, "tolist", getattr(wanted, "to_list", None))  # of an array, or a column of a table
        wanted = wanted if to_list is None else to_list()
        several = isinstance(wanted, (list, tuple, set, frozenset))
        values = [one.item() if isinstance(one, np.generic) else one for one in (wanted if several else [wanted])]
        found.append(Condition(column, "in", values))
    return found


def each(where: Filter) -> Iterator[Condition]:
    """Yield all conditions, including those inside ``Either``."""
    for one in where:
        if isinstance(one, Either):
            for choice in one.choices:
                yield from each(choice)
        else:
            yield one


def _parse(text: str) -> Filter:
    kinds, last = "", None
    words: list[str] = []
    nulls: list[int] = []  # places of "null" as a word; later words may extend it
    for token in _TOKEN.finditer(text.rstrip()):
        group, word = token.lastgroup or "", token[0].strip()
        if group == last == "word":  # a value of several words
            words[-1] += f" {word}"
            continue
        quote = word[0] if group == "quoted" else ""
        if group == "word" and word.lower() == "null":
            nulls.append(len(words))
        words.append(word[1:-1].replace(2 * quote, quote) if quote else word)
        kinds, last = kinds + _KINDS.get(group, word), group

    # "= null" is refused: a null equals nothing, and only "is null" finds it.
    kinds = "".join("0" if at in nulls and words[at].lower() == "null" else kind for at, kind in enumerate(kinds))
    unreadable = ValueError(
        f"where is {text!r}; it must be conditions such as price < 20, 20 <= price < 50, color in (red, blue), title "
        "like '%shoe%' or size is null, with 'and' or 'or' between them; quote a value that has such a sign or word "
        "itself"
    )

    def read(at: int, depth: int = 0) -> tuple[Filter, int]:
        """Parse from token ``at`` on, and return the filter and the next token's place."""
        choices: list[list[Condition | Either]] = [[]]
        while True:
            if kinds[at : at + 1] == "(" and depth < _DEEPEST:
                meant, at = read(at + 1, depth + 1)
                end = at + 1 if kinds[at : at + 1] == ")" else None
            else:
                shape = _CONDITION.match(kinds, at)
                end = shape and shape.end()
                meant = _meant(shape[0], words[at:end]) if shape else []
            if end is None or not meant:
                raise unreadable
            at = end
            choices[-1] += meant
            if kinds[at : at + 1] == "|":
                choices.append([])
            elif kinds[at : at + 1] != ",":
                return (choices[0] if len(choices) == 1 else [Either(choices)]), at
            at += 1

    found, end = read(0)
    if end < len(kinds):
        raise unreadable
    return found


def _meant(shape: str, words: Sequence[str]) -> Filter:
    """Return the conditions that these tokens express; empty if they are not valid."""
    first, sign, *rest = words
    if shape == "wowow":
        name, upper, value = rest
        same = sign[0] == upper[0] and sign in _TURNED and upper in _TURNED
        return [Condition(name, _TURNED[sign], [first]), Condition(name, upper, [value])] if same else []
    if shape == "wbw,w":
        return [Condition(first, ">=", rest[:1]), Condition(first, "<=", rest[2:])] if rest[1].lower() == "and" else []
    if shape == "wow":
        return [Condition(first, _EQUAL.get(sign, sign), rest)]
    return [Condition(first, " ".join(sign.lower().split()), rest[1::2] if "i" in shape else rest)]
