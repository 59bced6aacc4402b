"""Choose which columns of a table hold embeddings or texts, labels and split flags."""

from __future__ import annotations

import fnmatch
import json
import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lbhash.data.dataset import SPLITS
from lbhash.data.split_names import split_masks
from lbhash.data.texts import TEXT_COLUMNS, TextEmbedder
from lbhash.utils.formatting import some_names
from lbhash.utils.labels import has_label, read_labels

if TYPE_CHECKING:
    import pyarrow as pa

    from lbhash.utils.columns import Columns
    from lbhash.utils.tables import Source

EMBEDDINGS = ("embedding", "embeddings", "vector", "vectors", "features", "emb", "X")
NO_COLUMN = "none"
"""The value of ``label_column`` with which all labels are ignored."""

FLAGS = {f"in_{split}": split for split in SPLITS}  # columns or arrays that mark the rows of a split
SPLIT = "split"  # a column of texts that name the split of each row, as folders do
_NUMBERED = re.compile(r"(.*?)(\d+)")  # a name with a number at its end


class Asked(NamedTuple):
    """The columns that the caller asked for; with an encoder, ``embedding`` names the column of texts."""

    embedding: str | None
    label: str | None
    encoder: TextEmbedder | None = None


class Chosen(NamedTuple):
    """The columns to read from a table: embeddings (or texts), labels, and flags or the column ``split``."""

    columns: list[str]
    label: str | None
    splits: list[str]
    guessed: bool  # whether the label's name is ambiguous: it may hold something else

    @property
    def facts(self) -> list[str]:
        """The columns of labels and splits."""
        return [*([self.label] if self.label else []), *self.splits]


def choose(source: Source, asked: Asked, said: str) -> Chosen:
    """Choose the columns of a table; a line on standard error names unusual choices and further label columns.

    Raises ``ValueError`` if a requested column or the embeddings are missing, or if a name occurs twice. The message
    begins with ``said``.
    """
    from lbhash.utils.columns import LABELS, can_be_labels
    from lbhash.utils.tables import check_once

    schema, names, what = source.schema, source.schema.names, "column" if source.array is None else "array"
    has = f"it has {some_names(names)}"
    if asked.encoder is not None:
        columns = [_text_column(schema, asked, said, has)]
    elif asked.embedding is None:
        found = first_of(EMBEDDINGS, names)
        columns = [found] if found else _guessed(schema, said)
        if not columns:
            raise ValueError(f"{said}, which has no {what} 'embedding' ({has}); name it by embedding_column")
    else:
        matching = sorted(fnmatch.filter(names, asked.embedding), key=_by_number)
        columns = [asked.embedding] if asked.embedding in names else matching
        if not columns:
            raise ValueError(f"embedding_column is {asked.embedding!r}, and {said}, which has no such {what} ({has})")
    usual = [one for one in LABELS if one in names and one not in columns]
    usual = [one for one in usual if one in LABELS[:2] or source.array or can_be_labels(schema.field(one).type)]
    label = first_of(usual, names) if asked.label is None else asked.label
    if label is not None and label not in names:
        if label != NO_COLUMN:
            raise ValueError(f"label_column is {label!r}, and {said}, which has no such {what} ({has})")
        label = None
    splits = [one for one in split_columns(schema) if one not in (*columns, label)]
    chosen = Chosen(columns, label, splits, asked.label is None and label not in LABELS[:2])
    check_once(schema, (*columns, *chosen.facts), said)
    unusual = asked.embedding is None and columns[0] not in (
        EMBEDDINGS[:2] if asked.encoder is None else TEXT_COLUMNS[:1]
    )
    others = usual[1:] if asked.label is None else []
    if unusual or others or (label is not None and chosen.guessed):
        shown = (
            f"the {len(columns)} columns {columns[0]!r} to {columns[-1]!r}" if len(columns) > 1 else repr(columns[0])
        )
        shown += "" if label is None else f", labels in {label!r}"
        shown += f" and not in {some_names(others)}" if others else ""
        of, option = ("embeddings", "embedding_column") if asked.encoder is None else ("texts", "text_column")
        print(f"{said}: {of} are in {shown} ({option}, label_column name others)", file=sys.stderr)
    return chosen


def first_of(names: Iterable[str], present: Iterable[str]) -> str | None:
    """Return the first name that is present; ``None`` if none is."""
    return next((name for name in names if name in present), None)


def split_columns(schema: pa.Schema) -> list[str]:
    """Return the columns that mark splits: Boolean flags, or else texts in ``split``."""
    from lbhash.utils.columns import content

    flags = [flag for flag in FLAGS if flag in schema.names]
    if flags or SPLIT not in schema.names:
        return flags
    kind = schema.types[schema.names.index(SPLIT)]
    return [SPLIT] if content(kind) == "text" or kind == "null" else []  # null: an array of an .npz, not read yet


def _text_column(schema: pa.Schema, asked: Asked, said: str, has: str) -> str:
    """Return the column of texts: the requested one, one with a usual name, or the only text column."""
    from lbhash.utils.columns import LABELS, content

    column, label, _ = asked
    if column is not None:
        if column not in schema.names:
            raise ValueError(f"text_column is {column!r}, and {said}, which has no such column ({has})")
        return column
    texts = [one.name for one in schema if content(one.type) == "text" and one.name not in (label, SPLIT, *LABELS)]
    found = first_of(TEXT_COLUMNS, texts) or (texts[0] if len(texts) == 1 else None)
    if found is None:
        raise ValueError(f"{said}, which has no column 'text' ({has}); name it by text_column")
    return found


def _guessed(schema: pa.Schema, said: str) -> list[str]:
    """Return the only column of lists of numbers, or else the number columns named by one word and a number each.

    One cell that is not a number turns a CSV column into text. Such a column raises an error instead of being ignored.
    """
    from lbhash.utils.columns import LABELS, content

    of_lists = [one for one in schema if content(one.type) == "lists" and one.name not in LABELS]
    lists = [one.name for one in of_lists if content(one.type.value_type) in ("whole", "numbers")]
    if len(lists) == 1:
        return lists
    groups: dict[str, list[str]] = {}
    for one in schema:
        if content(one.type) in ("whole", "numbers") and (matched := _NUMBERED.fullmatch(one.name)):
            groups.setdefault(matched[1], []).append(one.name)
    word, largest = max(groups.items(), key=lambda group: len(group[1]), default=(None, []))
    for one in schema:
        matched = _NUMBERED.fullmatch(one.name)
        if matched and matched[1] == word and content(one.type) == "text":
            raise ValueError(
                f"{said}, whose column {one.name!r} holds text beside columns of numbers; mend or rename it"
            )
    return sorted(largest, key=_by_number) if len(largest) > 1 else []


def _by_number(name: str) -> tuple[int, str]:
    matched = _NUMBERED.fullmatch(name)
    return (int(matched[2]) if matched else -1, name)


def facts_of(columns: Columns, chosen: Chosen, parts: Sequence[tuple[str, int]], name: str) -> dict[str, Any]:
    """Return labels, class names and splits as arguments of ``Table``.

    Args:
        columns: the columns of labels and splits.
        chosen: their names.
        parts: name and number of rows of each part of the table; without such columns, the names decide the splits.
        name: name of the argument, for messages.
    """
    flags = {FLAGS[flag]: columns[flag].to_numpy() for flag in chosen.splits if flag != SPLIT}
    check_flags(flags, columns.rows, name)
    labels, classes = _labels_of(columns, chosen, name)
    labeled = None if labels is None else has_label(labels)
    masks = flags or (_split_by_words(columns, name, labeled) if SPLIT in chosen.splits else {})
    masks = masks or _split_by_parts(parts, name, labeled)
    splits = {"test_rows": masks["test"], "protocol": "official"} if "test" in masks else {"flags": masks}
    return {"labels": labels, "class_names": classes, **splits}


def _split_by_words(columns: Columns, name: str, labeled: npt.NDArray[np.bool_] | None) -> dict[str, npt.NDArray]:
    from lbhash.utils.columns import content

    if content(columns[SPLIT].type) != "text":
        return {}
    words = columns.texts(SPLIT)
    held = words.dictionary.to_pylist()
    masks = {} if words.null_count else split_masks(held, words.indices.to_numpy(), name, labeled)
    if not masks:
        shown = [*filter(str.strip, held), *["nothing"][: words.null_count]]
        said = f"column {SPLIT!r} of {name} holds {some_names(shown)}"
        print(f"{said}, not train and test rows alone: it is not used", file=sys.stderr)
    return masks


def _split_by_parts(
    parts: Sequence[tuple[str, int]], name: str, labeled: npt.NDArray[np.bool_] | None
) -> dict[str, npt.NDArray]:
    heads = [re.split("[-.]", title)[0] for title, _ in parts]
    masks = split_masks(heads, np.repeat(np.arange(len(parts)), [rows for _, rows in parts]), name, labeled)
    if not masks and "train" in map(str.lower, heads) and len(set(heads)) > 1:
        held = ", ".join(dict.fromkeys(heads))
        print(f"{name} has the parts {held}, which are no splits together: they are one table", file=sys.stderr)
    return masks


def _labels_of(columns: Columns, chosen: Chosen, name: str) -> tuple[npt.NDArray | None, Sequence[Any]]:
    """Return labels and class names; None and () without labels."""
    from lbhash.utils.columns import content

    if chosen.label is None:
        return None, ()
    source, said = columns.source, f"column {chosen.label!r} of {name}"
    column: Any = columns[chosen.label] if source.array is None else source.array(chosen.label)
    try:
        labels = read_labels(column, said, _class_names(source.schema.metadata, chosen.label, said))
    except ValueError as error:
        if not chosen.guessed or source.array or content(column.type) != "numbers":
            raise
        print(f"{error}; the column is not taken for labels", file=sys.stderr)
        return None, ()
    return labels.numbers, labels.classes


def check_flags(flags: dict[str, npt.NDArray], rows: int, name: str) -> None:
    """Raise ``ValueError`` unless every flag has one boolean per row."""
    for split, flag in flags.items():
        if flag.dtype != bool or flag.shape != (rows,):
            said = f"in_{split} of {name} is {flag.dtype} {list(flag.shape)}"
            raise ValueError(f"{said}; it must be a boolean for each row")


def _class_names(metadata: Any, label: str, said: str) -> tuple[str, ...]:
    """Return the class names that ``datasets`` wrote into the metadata of a schema."""
    try:
        feature = json.loads((metadata or {})[b"huggingface"])["info"]["features"][label]
        names = tuple(map(str, feature.get("names") or feature["feature"]["names"]))
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return ()
    if len(set(names)) < len(names):
        raise ValueError(f"{said} has metadata that name a class twice; give each class a name of its own")
    return names
