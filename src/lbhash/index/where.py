"""Filters over metadata: a mapping from columns to values, or a text that may compare them, too.

The column ``id`` has the ids. A text has conditions, all of which must hold, with commas or ``and`` between them:
``color in (red, blue), 20 <= price < 50 and title = "Shoes, size 3"``.

A condition is ``NAME = VALUE``, the same with ``!=``, ``<``, ``<=``, ``>`` or ``>=``, a range as above, ``NAME [not] in
(VALUE, …)`` or ``NAME is [not] null``. Quote a name or value that holds a comma, a parenthesis, an operator or the word
``and``; write the quote itself twice. A value is read in the type of its column. A missing value passes only ``is
null``. In a list, one value must pass; with ``!=`` and ``not in``, all must.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from lbhash.utils.validation import check_type

Where: TypeAlias = Mapping[str, Any] | str
"""A filter: a text, or for each column that it names the value, or a list of the values, that a code may have."""


class Condition(NamedTuple):
    """What a column must be: ``how`` is in, not in, <, <=, >, >=, is null or is not null, with ``values`` behind it."""

    column: str
    how: str
    values: Sequence[Any] = ()


_TOKEN = re.compile(
    r"""\s*(?: (?P<quoted> "(?:[^"]|"")*" | '(?:[^']|'')*' )
             | (?P<null> is\s+(?:not\s+)?null (?![^\s,)]) )
             | (?P<among> (?:not\s+)?in (?=\s*\() )
             | (?P<order> <=|>=|!=|==?|<|> )
             | (?P<mark> [(),] )
             | (?P<and> and (?!\S) )
             | (?P<word> (?:[^\s<>=!(),"'] | !(?!=)) (?:[^\s<>=!(),] | !(?!=))* )
             | (?P<other> \S ) )""",
    re.VERBOSE | re.IGNORECASE,
)
_KINDS = {"quoted": "w", "word": "w", "null": "n", "among": "i", "order": "o", "and": ",", "other": "?"}
_CONDITION = re.compile(r"(wowow|wow|wn|wi\(w(?:,w)*\))(?:,(?=w)|$)")
"""The kinds of the tokens of a condition, and of what separates it from the next one."""
_EQUAL = {"=": "in", "==": "in", "!=": "not in"}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def conditions(where: Where | None) -> list[Condition]:
    """Return the conditions of a filter; ``ValueError`` or ``TypeError`` if it cannot be read."""
    if isinstance(where, str):
        return _parse(where)
    check_type(where, "where", (Mapping, NoneType), "a text, or a mapping from columns to values")
    found = []
    for column, wanted in (where or {}).items():
        several = isinstance(wanted, (list, tuple, set, frozenset, np.ndarray))
        values = [one.item() if isinstance(one, np.generic) else one for one in (wanted if several else [wanted])]
        found.append(Condition(column, "in", values))
    return found


def _parse(text: str) -> list[Condition]:
    kinds, words, last = "", [], None
    for token in _TOKEN.finditer(text.rstrip()):
        group, word = token.lastgroup or "", token[0].strip()
        if group == last == "word":  # a value of several words
            words[-1] += f" {word}"
            continue
        quote = word[0] if group == "quoted" else ""
        words.append(word[1:-1].replace(2 * quote, quote) if quote else word)
        kinds, last = kinds + _KINDS.get(group, word), group
    found: list[Condition] = []
    at = 0
    while at < len(kinds) or not kinds:
        shape = _CONDITION.match(kinds, at)
        if shape is None:
            raise _unreadable(text)
        first, *rest = words[at : shape.end(1)]
        at = shape.end()
        if shape[1] == "wowow":
            (lower, name, upper, value) = rest
            if not lower[0] == upper[0] in "<>":
                raise _unreadable(text)
            found += [Condition(name, _TURNED[lower], [first]), Condition(name, upper, [value])]
        elif shape[1] == "wow":
            found.append(Condition(first, _EQUAL.get(rest[0], rest[0]), [rest[1]]))
        else:
            found.append(Condition(first, " ".join(rest[0].lower().split()), rest[2::2]))
    return found


def _unreadable(text: str) -> ValueError:
    return ValueError(
        f"where is {text!r}; it must be conditions such as price < 20, 20 <= price < 50, color in (red, blue) or "
        "size is null, with commas or 'and' between them; quote a value that has such a sign or word itself"
    )
