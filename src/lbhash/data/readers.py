"""Tables of embeddings from the files that people have, in the number type that the file has."""

from __future__ import annotations

import fnmatch
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lbhash.data.arrow import (
    FLAGS,
    check_flags,
    content,
    first_of,
    list_numbers,
    parquet_files,
    read_facts,
    read_parts,
    read_whole,
)
from lbhash.data.dataset import SPLITS
from lbhash.data.streamed import StreamedEmbeddings
from lbhash.data.table import EmbeddingTable
from lbhash.data.texts import TEXT_COLUMNS, EmbeddedTexts, TextEmbedder
from lbhash.utils.arrays import as_matrix, check_unmasked, held
from lbhash.utils.files import existing_file, fetched
from lbhash.utils.formatting import one_line, some_names
from lbhash.utils.label_files import LABELS, is_label_table, read_label_file
from lbhash.utils.labels import has_label, read_labels
from lbhash.utils.memory import check_npz
from lbhash.utils.tables import ARROWS, TEXTS, is_frame, of_frame, suffix_of
from lbhash.utils.validation import check_choice

TABLES = (*TEXTS, *ARROWS)  # that are read at once
SUFFIXES = (".parquet", ".npz", ".npy", *TABLES)
EMBEDDINGS = ("embedding", "embeddings", "vector", "vectors", "features", "emb", "X")
_NUMBERED = re.compile(r"(.*?)(\d+)")  # a name with a number at its end
_NAMED = 5  # damaged rows
NO_COLUMN = "none"
"""The name of no label column, for data whose labels do not count."""


class Asked(NamedTuple):
    """The columns of embeddings and labels that were asked for; with an encoder the embeddings are those of texts."""

    embedding: str | None
    label: str | None
    encoder: TextEmbedder | None = None


def read_table(
    path: str | Path,
    labels: str | Path | None = None,
    name: str = "data",
    *,
    stream: bool = False,
    embedding_column: str | None = None,
    label_column: str | None = None,
    text_column: str | None = None,
    encoder: TextEmbedder | None = None,
    damaged: str = "refuse",
) -> EmbeddingTable:
    """Read embeddings, labels and split flags.

    The embeddings are a column of lists of one length, or of such lists as JSON in text, or a column for each number (a
    pattern such as ``emb_*`` names them). Labels are integers or strings, or lists of these if a row may have several.
    Of one label a row some may be missing (null, NaN or empty): they are ``UNLABELED``. Boolean ``in_train``,
    ``in_base`` and ``in_query`` say which split a row belongs to.

    Args:
        path: a frame of pandas or Polars, or a table of Arrow; a table in a file, which is Parquet, CSV, TSV, JSON (a
            list of objects, or one a line), each also with ``.gz``, Arrow or Feather; a folder of Parquet files, or a
            folder that ``datasets`` saved; an ``.npz`` with such arrays; an ``.npy`` of the embeddings, whose labels
            may lie beside ``NAME.npy`` in ``NAME_labels.npy``; or the address of such a file that ``fsspec`` reads.
        labels: an ``.npy``, or a table with a column of the labels, instead of the file's own.
        name: of the argument, for messages.
        stream: read the embeddings of a Parquet file when they are looked at, and leave it to whoever looks at them
            to find those that are NaN, infinite or beyond float32 (``check_embeddings``).
        embedding_column: the column or array of the embeddings; if None, the first of ``EMBEDDINGS`` that is there, or
            else the only column of lists of numbers, or else the columns of one name and a number each.
        label_column: that of the labels, in the table ``labels`` if there is one, or ``none``; if None, the first of
            ``LABELS`` that is there.
        encoder: what makes embeddings of texts, whenever they are looked at (``EmbeddedTexts``); None for embeddings.
        text_column: the column of the texts; if None, the first of ``TEXT_COLUMNS`` that is there, or else the only
            column of texts besides that of the labels.
        damaged: ``refuse`` embeddings that are NaN, infinite or beyond float32, and texts that are missing, or ``skip``
            such rows, which are then in no split, and say how many there are.

    Raises:
        TypeError, ValueError: the file is missing, damaged, empty or holds something else; an embedding is NaN,
            infinite or beyond float32 (the message says which row); labels are missing or are no classes.
    """
    frame = is_frame(path)
    path = path if frame else fetched(path, name)
    if text_column is not None and encoder is None:
        raise ValueError(f"text_column is {text_column!r} without an encoder; it is for texts: give encoder too")
    asked = Asked(embedding_column if encoder is None else text_column, label_column, encoder)
    check_choice(damaged, "damaged", ("refuse", "skip"))
    try:
        return _read_table(path, labels, name, asked, stream=stream, skip=damaged == "skip")
    except (TypeError, ValueError) as error:
        if frame or type(error) not in (TypeError, ValueError) or repr(str(path)) in str(error):
            raise
        raise type(error)(f"{error} ({name} is {str(path)!r})") from None


def _read_table(
    path: str | Path,
    labels: str | Path | None,
    name: str,
    asked: Asked,
    *,
    stream: bool,
    skip: bool,
) -> EmbeddingTable:
    """Read a table as ``read_table`` says; not every message has the name of the file."""
    apart, column, label_name = is_label_table(labels), asked.label, "labels"
    if apart:  # the column is one of theirs
        asked = asked._replace(label=NO_COLUMN)
    if is_frame(path):
        said = f"{name} is a frame"
        table = _of_columns(of_frame(path, said), {}, name, asked, said)
    else:
        table, beside = _read_file(path, name, asked, stream=stream)
        if labels is None and beside is not None and asked.label != NO_COLUMN and beside.is_file():
            label_name, labels = f"{beside.name} beside {name}", beside
    if labels is not None:
        given = read_label_file(fetched(labels, label_name), label_name, column if apart else None)
        read = read_labels(given, label_name)
        table = replace(table, labels=read.numbers, class_names=read.classes)
    if table.labels is not None and len(table.labels) != len(table):
        raise ValueError(f"{name} has {len(table)} embeddings and {len(table.labels)} labels")
    later, found = (stream or skip) and table.embeddings.ndim == 2, f"embeddings of {name}"
    if isinstance(table.embeddings, EmbeddedTexts):
        found = f"the text of {name}"
        if not skip:
            check_texts(table.embeddings, found)
    else:
        check_embeddings(table.embeddings[: not skip] if later else table.embeddings, found)
    if skip and (rows := _damaged_rows(table.embeddings)).size:
        said = _damage(table.embeddings, rows, found)
        if len(rows) == len(table):
            raise ValueError(f"{said}; no row is left")
        print(f"{said} of {len(table):,}; they are left out", file=sys.stderr)
        table = table.without(rows)
    if not len(table):
        raise ValueError(f"{name} is {str(path)!r}, which has no row")
    if table.labels is not None and not has_label(table.labels).any():
        raise ValueError(
            f"labels of {name} are missing in every row; name others, or none (label_column {NO_COLUMN!r})"
        )
    return table


def _read_file(path: str | Path, name: str, asked: Asked, *, stream: bool) -> tuple[EmbeddingTable, Path | None]:
    """Return the table of a file or folder, and where its labels may lie, if they may lie beside it."""
    folder = Path(path).is_dir() and is_one_table(Path(path))
    file = Path(path) if folder else existing_file(path, name)
    if folder or file.suffix == ".parquet" or suffix_of(file) in TABLES:
        return _read_columns(file, name, asked, stream=stream), None
    if asked.encoder is not None:
        raise ValueError(
            f"{name} is {str(path)!r}, which holds no texts; an encoder takes a table with a column of them"
        )
    if file.suffix == ".npz":
        return _read_npz(file, name, asked), None
    if file.suffix != ".npy":
        raise ValueError(f"{name} is {str(path)!r}; it must end in {', '.join(SUFFIXES)}")
    with _numpy_file(name, f"{name} is {str(file)!r}", ".npy"):
        embeddings = np.lib.format.open_memmap(file, mode="r")
    return EmbeddingTable(as_matrix(embeddings, name), None, file.name), file.with_name(f"{file.stem}_labels.npy")


def holds_embeddings(data: str | Path, text_column: str | None) -> bool:
    """Return whether data, for a model of texts, have embeddings and no such column of texts: arrays, or Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = parquet_files(Path(data))
    if not files:
        return Path(data).suffix in (".npy", ".npz")
    try:
        names = pq.read_schema(files[0]).names
    except (pa.ArrowInvalid, OSError):  # whoever reads the file says what is wrong with it
        return False
    return text_column not in names and first_of(EMBEDDINGS, names) is not None


def is_one_table(folder: Path) -> bool:
    """Return whether a folder is one table: parts of Parquet, or what ``datasets`` saved, and no files of splits."""
    if any((folder / f"{split}{suffix}").is_file() for split in SPLITS for suffix in SUFFIXES):
        return False
    return any(next(folder.glob(one), None) for one in ("state.json", "dataset_dict.json", "*.parquet"))


def check_embeddings(
    embeddings: npt.NDArray, name: str = "embeddings", rows: npt.NDArray[np.int64] | None = None
) -> None:
    """Raise ``ValueError`` or ``TypeError`` unless ``embeddings`` is ``[n, dim]`` of finite numbers.

    A message calls them ``name`` and its rows by the numbers in ``rows``, ``int64 [n]``; if None, they count from 0.
    """
    check_unmasked(embeddings, name)
    if embeddings.ndim != 2 or embeddings.shape[1] == 0:
        raise ValueError(f"{name} has shape {embeddings.shape}; it must be [n, dim]")
    if embeddings.dtype.kind not in "uif":
        raise TypeError(f"{name} holds {held(embeddings)}; it must hold numbers")
    damaged = _damaged_rows(embeddings)
    if len(damaged):
        said = _damage(embeddings, damaged, name, rows)
        how = " (damaged 'skip')" if name.startswith("embeddings of") else f": {name}[isfinite({name}).all(axis=1)]"
        raise ValueError(f"{said}; every number must be finite: mend them, or leave them out{how}")


def check_texts(embeddings: EmbeddedTexts, name: str) -> None:
    """Raise ``ValueError`` if a text is missing, or has nothing but spaces."""
    if len(blank := embeddings.blank()):
        raise ValueError(f"{_damage(embeddings, blank, name)}; mend such rows, or leave them out (damaged 'skip')")


def _damaged_rows(embeddings: npt.NDArray | EmbeddedTexts) -> npt.NDArray[np.int64]:
    """Return the rows that are NaN, infinite or beyond float32, or without a text."""
    if isinstance(embeddings, EmbeddedTexts):
        return embeddings.blank()
    found = [np.empty(0, np.int64)]
    for start in range(0, len(embeddings) if embeddings.dtype.kind == "f" else 0, 8192):
        with np.errstate(over="ignore"):  # float32 is what a model is given
            finite = np.isfinite(embeddings[start : start + 8192].astype(np.float32, copy=False)).all(axis=1)
        found.append(start + np.flatnonzero(~finite))
    return np.concatenate(found)


def _damage(
    embeddings: npt.NDArray | EmbeddedTexts,
    damaged: npt.NDArray[np.int64],
    name: str,
    rows: npt.NDArray[np.int64] | None = None,
) -> str:
    """Return what is wrong with damaged rows, and which the first ones are, by the numbers in ``rows`` if given."""
    if isinstance(embeddings, EmbeddedTexts):
        what = "empty"
    else:
        what = "beyond the range of float32" if np.isfinite(embeddings[damaged[:1]]).all() else "NaN or infinite"
    numbers = (damaged if rows is None else rows[damaged]).tolist()
    if len(numbers) == 1:
        return f"{name} is {what} in row {numbers[0]}"
    named = ", ".join(map(str, numbers[:_NAMED])) + (", …" if len(numbers) > _NAMED else "")
    return f"{name} is {what} in {len(numbers):,} rows ({named})"


def _read_columns(file: Path, name: str, asked: Asked, *, stream: bool) -> EmbeddingTable:
    import pyarrow as pa
    import pyarrow.parquet as pq

    files = parquet_files(file)
    said = f"{name} is {str(file)!r}"
    try:
        if not files:
            return _of_columns(*read_whole(file, said), name, asked, said, file.name)
        schema = pq.read_schema(files[0])
        columns, label = _chosen(schema.names, asked, said, schema)
        streamed = len(columns) == 1 and content(schema.field(columns[0]).type) == "lists"
        needed = [flag for flag in FLAGS if flag in schema.names] + ([label] if label else [])
        parts = read_parts(files, needed + ([] if streamed else columns), said)
        whole = pa.concat_tables(parts, promote_options="permissive")
        if streamed:
            rows = StreamedEmbeddings(files, name, columns[0])
            embeddings: Any = rows if stream else rows.in_memory()
        else:
            embeddings = _matrix(whole, columns, name, asked.encoder)
    except (pa.ArrowException, OSError, KeyError) as error:
        form = "no Parquet file" if files else "of another form"
        raise ValueError(f"{said}, which is damaged or {form}: {one_line(error)}") from None
    labels, names, splits = read_facts(whole, label, {}, name, metadata=schema.metadata)
    return EmbeddingTable(embeddings, labels, file.name, class_names=names, **splits)


def _of_columns(
    whole: Any,
    masks: dict[str, npt.NDArray[np.bool_]],
    name: str,
    asked: Asked,
    said: str,
    title: str = "data",
) -> EmbeddingTable:
    """Return the table of embeddings that a table of Arrow in memory is."""
    columns, label = _chosen(whole.schema.names, asked, said, whole.schema)
    embeddings = _matrix(whole, columns, name, asked.encoder)
    labels, names, splits = read_facts(whole, label, masks, name, metadata=whole.schema.metadata)
    return EmbeddingTable(embeddings, labels, title, class_names=names, **splits)


def _chosen(names: Sequence[str], asked: Asked, said: str, schema: Any = None) -> tuple[list[str], str | None]:
    """Return the columns of the embeddings and the one of the labels, and say which if they have unusual names.

    Without a schema the names are those of arrays, of which no type is known.
    """
    import pyarrow as pa

    embedding, label, encoder = asked
    what = "array" if schema is None else "column"
    has = f"it has {some_names(names)}"
    if encoder is not None:
        columns = [_text_column(schema, asked, said, has)]
    elif embedding is None:
        found = first_of(EMBEDDINGS, names)
        columns = [found] if found else [] if schema is None else _guessed(schema, said)
        if not columns:
            raise ValueError(f"{said}, which has no {what} 'embedding' ({has}); name it by embedding_column")
    else:
        columns = [embedding] if embedding in names else sorted(fnmatch.filter(names, embedding), key=_by_number)
        if not columns:
            raise ValueError(f"embedding_column is {embedding!r}, and {said}, which has no such {what} ({has})")
    chosen = label
    if label is None:
        chosen = first_of((one for one in LABELS if one not in columns), names)
        if schema is not None and chosen not in (None, *LABELS[:2]):  # only if the column can hold some
            kind = schema.field(chosen).type
            kind = getattr(kind, "value_type", kind)
            if not (pa.types.is_integer(kind) or content(kind) == "text"):
                chosen = None
    elif label not in names:
        if label != NO_COLUMN:
            raise ValueError(f"label_column is {label!r}, and {said}, which has no such {what} ({has})")
        chosen = None
    unusual = embedding is None and columns[0] not in (EMBEDDINGS[:2] if encoder is None else TEXT_COLUMNS[:1])
    if unusual or (label is None and chosen not in (None, *LABELS[:2])):
        shown = (
            repr(columns[0]) if len(columns) == 1 else f"the {len(columns)} columns {columns[0]!r} to {columns[-1]!r}"
        )
        shown += "" if chosen is None else f", labels in {chosen!r}"
        of, option = ("embeddings", "embedding_column") if encoder is None else ("texts", "text_column")
        print(f"{said}: {of} are in {shown} ({option}, label_column name others)", file=sys.stderr)
    return columns, chosen


def _text_column(schema: Any, asked: Asked, said: str, has: str) -> str:
    """Return the column of the texts: the one that was asked for, one of a usual name, or the only one of texts."""
    column, label, _ = asked
    if column is not None:
        if column not in schema.names:
            raise ValueError(f"text_column is {column!r}, and {said}, which has no such column ({has})")
        return column
    kinds = {one.name: getattr(one.type, "value_type", one.type) for one in schema}  # of a category, that of its texts
    texts = [name for name, kind in kinds.items() if content(kind) == "text" and name not in (label, *LABELS)]
    found = first_of(TEXT_COLUMNS, texts) or (texts[0] if len(texts) == 1 else None)
    if found is None:
        raise ValueError(f"{said}, which has no column 'text' ({has}); name it by text_column")
    return found


def _guessed(schema: Any, said: str) -> list[str]:
    """Return the only column of lists of numbers, or else the columns of numbers named by one word and a number each.

    One cell that is no number makes a column of a CSV file text, which must not be left out without a word.
    """
    of_lists = [one for one in schema if content(one.type) == "lists" and one.name not in LABELS]
    lists = [one.name for one in of_lists if content(one.type.value_type) == "numbers"]
    if len(lists) == 1:
        return lists
    groups: dict[str, list[str]] = {}
    for one in schema:
        if content(one.type) == "numbers" and (matched := _NUMBERED.fullmatch(one.name)):
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


def _matrix(table: Any, columns: Sequence[str], name: str, encoder: TextEmbedder | None) -> Any:
    """Return the embeddings ``[n, dim]`` of one column of lists, as such or as JSON, or of a column for each number.

    With an encoder they are those of one column of texts.
    """
    import pyarrow as pa

    first = table[columns[0]]
    if encoder is not None:
        if pa.types.is_dictionary(first.type):
            first = first.cast(first.type.value_type)
        if content(first.type) != "text":
            raise TypeError(f"column {columns[0]!r} of {name} holds {first.type}; it must hold texts (text_column)")
        return EmbeddedTexts(first, encoder, columns[0])
    if len(columns) == 1 and content(first.type) == "text":
        lists: list[Any] = []
        try:
            for text in first.to_pylist():
                lists.append(json.loads(text or "null"))
            first = pa.chunked_array([pa.array(lists)])
        except (ValueError, pa.ArrowException):
            row = len(lists) % len(table)  # Arrow, which is given all rows, does not say which one it is
            said = f"column {columns[0]!r} of {name} is {first[row].as_py()[:40]!r} in row {row}"
            what = "it must hold lists of numbers, or such lists as JSON; name another by embedding_column"
            raise ValueError(f"{said}; {what}") from None
    if len(columns) == 1:
        if not len(table):
            return np.empty((0, 1))
        rows = np.arange(len(table))
        return list_numbers(first.combine_chunks(), rows, None, f"column {columns[0]!r} of {name}")
    for one in columns:
        if content(table[one].type) != "numbers":
            raise TypeError(f"column {one!r} of {name} holds {table[one].type}; it must hold numbers")
    return np.column_stack([table[one].to_numpy() for one in columns])  # of a null, NaN


def _read_npz(file: Path, name: str, asked: Asked) -> EmbeddingTable:
    said = f"{name} is {str(file)!r}"
    with _numpy_file(name, said, ".npz"), np.load(file, allow_pickle=False) as arrays:
        names = list(arrays.files)
    columns, label = _chosen(names, asked, said)
    wanted = [*columns, *([label] if label else []), *(flag for flag in FLAGS if flag in names)]
    check_npz(file, f"{said}, which", wanted)
    found: dict[str, npt.NDArray] = {}
    with np.load(file, allow_pickle=False) as arrays:
        for key in wanted:
            with _numpy_file(f"array {key!r} of {name}", said, ".npz"):
                found[key] = arrays[key]
    read = None if label is None else read_labels(found[label], f"labels of {name}")
    embeddings = found[columns[0]] if len(columns) == 1 else np.column_stack([found[one] for one in columns])
    embeddings = as_matrix(embeddings, name)
    flags = {split: found[flag] for flag, split in FLAGS.items() if flag in found}
    check_flags(flags, len(embeddings), name)
    if read is None:
        return EmbeddingTable(embeddings, None, file.name, flags)
    return EmbeddingTable(embeddings, read.numbers, file.name, flags, class_names=read.classes)


@contextmanager
def _numpy_file(name: str, said: str, form: str) -> Iterator[None]:
    """Turn what NumPy raises at a damaged file into ``ValueError``, and at Python objects into ``TypeError``."""
    try:
        yield
    except Exception as error:  # NumPy and zipfile raise almost anything
        if "Object arrays" in str(error) or "Python objects" in str(error):
            raise TypeError(
                f"{name} holds Python objects, which are never loaded; it must hold numbers (or labels strings): "
                "save numpy.stack(list(array)) or array.astype(str)"
            ) from None
        raise ValueError(f"{said}, which is damaged or no {form} file: {one_line(error)}") from None
