"""Read tables of embeddings from many kinds of files, in the number type of the file."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.data.choose import EMBEDDINGS, FLAGS, NO_COLUMN, Asked, Chosen, choose, facts_of, first_of
from lbhash.data.dataset import SPLITS
from lbhash.data.streamed import NpyRows, StreamedEmbeddings
from lbhash.data.table import EmbeddingTable
from lbhash.data.texts import EmbeddedTexts, TextEmbedder
from lbhash.data.vectors import Growing
from lbhash.utils.arrays import as_matrix, check_unmasked, held
from lbhash.utils.fetched import fetched
from lbhash.utils.labels import has_label, read_labels
from lbhash.utils.memory import check_parquet, crowds
from lbhash.utils.reading import reading
from lbhash.utils.table_files import SUFFIXES, is_frame, is_label_table, suffix_of, table_files
from lbhash.utils.validation import check_choice

if TYPE_CHECKING:
    from lbhash.utils.tables import Source

_NAMED = 5  # damaged rows that a message names


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
    need_labels: bool = True,
) -> EmbeddingTable:
    """Read embeddings, labels and split flags.

    Embeddings are one column of lists of one length (also as JSON text), or one column per dimension (named by a
    pattern such as ``emb_*``). Labels are integers or strings, or lists of them if a row may have several. If each row
    has one label, missing ones (null, NaN or empty) become ``UNLABELED``. Boolean ``in_train``, ``in_base`` and
    ``in_query`` mark the rows of each split.

    Args:
        path: a pandas or Polars frame, or an Arrow table; a file in Parquet, Arrow, Feather, CSV, TSV or JSON (a list
            of objects, or one per line), the last three also as ``.gz``; a folder of such files, or one saved by
            ``datasets``; an ``.npz`` with such arrays; an ``.npy`` of embeddings, with labels in ``NAME_labels.npy``
            beside ``NAME.npy``, if any; or the address of such a file for ``fsspec``.
        labels: an ``.npy``, or a table with a label column, used instead of the file's labels.
        name: name of the argument, for messages.
        stream: read the embeddings of a Parquet or ``.npy`` file on access. The caller must then check that they are
            finite (``check_embeddings``).
        embedding_column: the column or array of embeddings. If None, the first of ``EMBEDDINGS`` that exists, or else
            the only column of lists of numbers, or else the columns of one word and a number each.
        label_column: the column of labels, in the table ``labels`` if given; ``none`` ignores labels. If None, the
            first of ``LABELS`` that exists.
        encoder: embeds the column of texts on access (``EmbeddedTexts``); None if the table holds embeddings.
        text_column: the column of texts. If None, the first of ``TEXT_COLUMNS`` that exists, or else the only column of
            texts besides the labels.
        damaged: ``refuse`` raises an error if embeddings are NaN, infinite or beyond float32, or texts are missing;
            ``skip`` keeps such rows out of all splits and reports their number.
        need_labels: raise an error if every label is missing; if false, the table then has no labels.

    Raises:
        TypeError, ValueError: the file is missing, damaged, empty or holds something else; an embedding is NaN,
            infinite or beyond float32 (the message names the row); labels are missing or are not classes.
    """
    path = path if is_frame(path) else fetched(path, name)
    if text_column is not None and encoder is None:
        raise ValueError(f"text_column is {text_column!r} without an encoder; it is for texts: give encoder too")
    asked = Asked(embedding_column if encoder is None else text_column, label_column, encoder)
    check_choice(damaged, "damaged", ("refuse", "skip"))
    with reading(name, path):
        table = _read_table(path, labels, name, asked, stream=stream, skip=damaged == "skip")
        if table.labels is None or has_label(table.labels).any():
            return table
        if need_labels:
            how = f"name others, or none (label_column {NO_COLUMN!r})"
            raise ValueError(f"labels of {name} are missing in every row; {how}")
        return replace(table, labels=None, class_names=())


def _read_table(
    path: str | Path,
    labels: str | Path | None,
    name: str,
    asked: Asked,
    *,
    stream: bool,
    skip: bool,
) -> EmbeddingTable:
    """Read a table as ``read_table`` does; messages may lack the name of the file."""
    from lbhash.utils.columns import read_label_file

    apart, column, label_name = is_label_table(labels), asked.label, "labels"
    if apart:  # label_column names a column of that table
        asked = asked._replace(label=NO_COLUMN)
    table = _read_file(path, name, asked, stream=stream)
    if labels is None and not is_frame(path) and suffix_of(path) == ".npy" and asked.label != NO_COLUMN:
        beside = Path(path).with_name(f"{Path(path).stem}_labels.npy")
        label_name, labels = f"{beside.name} beside {name}", beside if beside.is_file() else None
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
    return table


def _read_file(path: str | Path, name: str, asked: Asked, *, stream: bool) -> EmbeddingTable:
    """Return the table of a frame, file or folder."""
    from lbhash.utils.columns import read_columns
    from lbhash.utils.tables import open_table

    said, suffix = (f"{name} is a frame", "") if is_frame(path) else (f"{name} is {str(path)!r}", suffix_of(path))
    if asked.encoder is not None and suffix in (".npy", ".npz"):
        raise ValueError(f"{said}, which holds no texts; an encoder takes a table with a column of them")
    source = open_table(path, name)
    if source.array is not None and suffix == ".npy":
        rows: Any = NpyRows(Path(path), name)
        if not rows.in_order or not (stream or crowds(Path(path).stat().st_size)):
            rows = as_matrix(source.array("embedding"), name)
        return EmbeddingTable(rows, None, source.title)
    chosen = choose(source, asked, said)
    if source.array is not None:
        arrays = [source.array(one) for one in chosen.columns]
        embeddings: Any = as_matrix(arrays[0] if len(arrays) == 1 else np.column_stack(arrays), name)
        columns = read_columns(source, chosen.facts, chosen.label)
        return EmbeddingTable(embeddings, **facts_of(columns, chosen, [], name), name=source.title)
    return _read_columns(source, chosen, asked, name, said, stream=stream)


def _read_columns(
    source: Source, chosen: Chosen, asked: Asked, name: str, said: str, *, stream: bool
) -> EmbeddingTable:
    """Read the columns in one pass, except embeddings that are streamed."""
    import pyarrow as pa

    from lbhash.utils.columns import Columns, content

    for file in source.files:
        check_parquet(file, f"{said}, whose columns {', '.join(chosen.facts)}", chosen.facts)
    (first, *others), is_text = chosen.columns, asked.encoder is not None
    kind = source.schema.field(first).type
    if is_text and content(kind) != "text":
        raise TypeError(f"column {first!r} of {name} holds {kind}; it must hold texts (text_column)")
    streamed = stream and source.files and not others and content(kind) == "lists"
    growing = Growing(chosen.columns, source.rows, name, said)
    columns = Columns(source, [*chosen.facts, *([first] if is_text else [])], chosen.label)
    types = {flag: pa.bool_() for flag in chosen.splits if flag in FLAGS} | {
        one: pa.float64() for one in chosen.columns if others
    }
    wanted = list(dict.fromkeys([*chosen.facts, *([] if streamed else chosen.columns)]))
    rows: list[tuple[str, int]] = []
    for part in source.parts or (source,):
        before = columns.rows
        for batch in part.read(wanted, types) if wanted else ():
            columns.add(batch)
            if not is_text and not streamed:
                growing.add(batch)
        rows.append((part.title, columns.rows - before))
    if wanted and not columns.rows:
        raise ValueError(f"{said}, which has no row")
    if streamed:
        embeddings: Any = StreamedEmbeddings(source.files, name, first)
    else:
        embeddings = EmbeddedTexts(columns.texts(first), asked.encoder, first) if asked.encoder else growing.finish()
    return EmbeddingTable(embeddings, **facts_of(columns, chosen, rows, name), name=source.title)


def holds_embeddings(data: str | Path, text_column: str | None) -> bool:
    """Return whether data for a model of texts hold embeddings and lack the column of texts."""
    from lbhash.utils.tables import open_table

    if suffix_of(data) in (".npy", ".npz"):
        return True
    try:
        names = open_table(data).schema.names
    except ValueError:  # reading the file reports the fault
        return False
    return text_column not in names and first_of(EMBEDDINGS, names) is not None


def is_one_table(folder: Path) -> bool:
    """Return whether a folder is one table: it has table files, or ``datasets`` saved it, and no file is a split."""
    if any((folder / f"{split}{suffix}").is_file() for split in SPLITS for suffix in SUFFIXES):
        return False
    saved = (folder / "state.json").is_file() or (folder / "dataset_dict.json").is_file()
    return saved or bool(table_files(folder))


def check_embeddings(
    embeddings: npt.NDArray, name: str = "embeddings", rows: npt.NDArray[np.int64] | None = None
) -> None:
    """Raise ``ValueError`` or ``TypeError`` unless ``embeddings`` is ``[n, dim]`` of finite numbers.

    Messages call the embeddings ``name`` and number their rows by ``rows``, ``int64 [n]``; if None, from 0.
    """
    check_unmasked(embeddings, name)
    if embeddings.ndim != 2 or embeddings.shape[1] == 0:
        raise ValueError(f"{name} has shape {embeddings.shape}; it must be [n, dim]")
    if embeddings.dtype.kind not in "uif":
        raise TypeError(f"{name} holds {held(embeddings)}; it must hold numbers")
    damaged = _damaged_rows(embeddings)
    if len(damaged):
        said = _damage(embeddings, damaged, name, rows)
        how = " (damaged='skip')" if name.startswith("embeddings of") else f": {name}[isfinite({name}).all(axis=1)]"
        raise ValueError(f"{said}; every number must be finite: mend them, or leave them out{how}")


def check_texts(embeddings: EmbeddedTexts, name: str) -> None:
    """Raise ``ValueError`` if a text is missing or blank."""
    if len(blank := embeddings.blank()):
        raise ValueError(f"{_damage(embeddings, blank, name)}; mend such rows, or leave them out (damaged='skip')")


def _damaged_rows(embeddings: npt.NDArray | EmbeddedTexts) -> npt.NDArray[np.int64]:
    """Return the rows that are NaN, infinite or beyond float32, or without a text."""
    if isinstance(embeddings, EmbeddedTexts):
        return embeddings.blank()
    found = [np.empty(0, np.int64)]
    whole = isinstance(embeddings, np.ndarray) and embeddings.dtype.kind != "f"
    for start in range(0, 0 if whole else len(embeddings), 8192):
        with np.errstate(over="ignore"):  # models take float32
            finite = np.isfinite(embeddings[start : start + 8192].astype(np.float32, copy=False)).all(axis=1)
        found.append(start + np.flatnonzero(~finite))
    return np.concatenate(found)


def _damage(
    embeddings: npt.NDArray | EmbeddedTexts,
    damaged: npt.NDArray[np.int64],
    name: str,
    rows: npt.NDArray[np.int64] | None = None,
) -> str:
    """Return words that name the fault and the first damaged rows, numbered by ``rows`` if given."""
    if isinstance(embeddings, EmbeddedTexts):
        what = "empty"
    else:
        what = "beyond the range of float32" if np.isfinite(embeddings[damaged[:1]]).all() else "NaN or infinite"
    numbers = (damaged if rows is None else rows[damaged]).tolist()
    if len(numbers) == 1:
        return f"{name} is {what} in row {numbers[0]}"
    named = ", ".join(map(str, numbers[:_NAMED])) + (", …" if len(numbers) > _NAMED else "")
    return f"{name} is {what} in {len(numbers):,} rows ({named})"
