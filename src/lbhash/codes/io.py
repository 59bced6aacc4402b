"""Files of codes: Parquet or ``.npz`` files with packed codes, their labels and the rows that they come from.

A folder of such Parquet files is read as one file (``lbhash.utils.parts``). Codes of other programs are read from
``.npz`` and ``.npy`` files too, packed or with one column for each bit.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lbhash.codes import PackedCodes, as_packed, check_bits, code_bytes
from lbhash.utils.checksums import read_npz, write_npz
from lbhash.utils.columns import read_label_file
from lbhash.utils.formatting import one_line
from lbhash.utils.labels import Labels, class_array, own_classes, read_labels
from lbhash.utils.memory import check_npz, check_parquet
from lbhash.utils.parquet import read_parquet, write_parquet
from lbhash.utils.parts import open_parts
from lbhash.utils.paths import check_path, existing_file, read_npy
from lbhash.utils.reading import reading
from lbhash.utils.serialization import other_format
from lbhash.utils.validation import check_same_rows, check_type, refusing

SUFFIXES = (".parquet", ".npz")
VERSION = 2
"""The version of the format of code files; version 1 had another order of bits."""
READABLE = (*SUFFIXES, ".npy")
OWN_COLUMNS = ("row", "code", "label", "labels")
"""The columns of a Parquet file of codes that lbhash writes; all others are extra columns."""


@dataclass(frozen=True)
class CodeTable:
    """Codes with their rows, labels and extra columns.

    Attributes:
        codes: ``uint8 [n, ceil(bits / 8)]``.
        bits: h, the length of a code.
        rows: the row of each code in the file that was encoded, ``int64 [n]``.
        labels: positions in ``class_names``, ``int64 [n]``, ``UNLABELED`` for a row without a label; or
            ``uint8 [n, C]`` of 0 and 1, if a row may have several.
        model: fingerprint of the model that made the codes; empty if unknown.
        extra_columns: the other columns of a Parquet file; None if there are none.
        class_names: the class of each position: text, numbers or Booleans. By default the positions themselves.

    >>> from lbhash import pack
    >>> CodeTable(pack([[-1, 1], [1, 1]]), bits=2, rows=np.arange(2), labels=np.array([0, 1])).codes.tolist()
    [[64], [192]]
    """

    codes: PackedCodes
    bits: int
    rows: npt.NDArray[np.int64]
    labels: npt.NDArray | None = None
    model: str = ""
    extra_columns: pa.Table | None = None
    class_names: Sequence[Any] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "class_names", self.class_names or own_classes(self.labels))


def check_suffix(path: str | Path, name: str = "out", suffixes: tuple[str, ...] = SUFFIXES) -> Path:
    """Return ``path``, or raise ``ValueError`` unless it has the suffix of a file of codes."""
    file = Path(path)
    if file.suffix not in suffixes:
        raise ValueError(f"{name} is {str(path)!r}; it must end in {' or '.join(suffixes)}")
    return file


def check_one_model(name: str, bits: int, model: str, other: str, other_bits: int, other_model: str) -> None:
    """Raise ``ValueError`` unless two sets of codes have the same length and, as far as known, the same model.

    Models are fingerprints, empty if unknown.
    """
    ours, theirs = f"of {bits} bits", f"of {other_bits} bits"
    if bits == other_bits and model and other_model:
        ours, theirs = f"of model {model}", f"of model {other_model}"
    if ours != theirs:
        raise ValueError(f"{name} and {other} do not go together: codes {ours} and {theirs}; use one model for both")


def check_table(table: object) -> None:
    """Raise ``TypeError`` unless something is a table of codes."""
    check_type(table, "table", CodeTable, "a CodeTable of codes, their length and rows, as read_codes returns it")


def write_codes(path: str | Path, table: CodeTable) -> None:
    """Write codes to a ``.parquet`` file (``convert_arrow``) or an ``.npz`` file; both hold a checksum.

    Raises:
        TypeError, ValueError: the table's parts do not fit together, or the file cannot be written.

    >>> import tempfile
    >>> table = CodeTable(np.array([[64], [192]], np.uint8), bits=2, rows=np.arange(2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_codes(f"{folder}/codes.parquet", table)
    ...     read_codes(f"{folder}/codes.parquet").bits
    2
    """
    file = check_suffix(path, "path")
    check_table(table)
    if file.suffix == ".npz":
        arrays = {"codes": table.codes, "bits": table.bits, "rows": table.rows, "model": table.model}
        arrays["version"] = VERSION
        if table.labels is not None:
            used = Labels(table.labels, table.class_names).used()
            arrays |= {"labels": used.numbers, "classes": np.array(json.dumps(list(used.classes)))}
        write_npz(file, arrays)
        return
    write_parquet(file, convert_arrow(table))


def convert_arrow(table: CodeTable) -> pa.Table:
    """Return codes as the columns ``row``, ``code``, ``label`` or ``labels``, and the extra columns."""
    columns = {
        "row": pa.array(table.rows),
        "code": code_column(table.codes),
        **label_columns(table.labels, table.class_names),
    }
    if table.extra_columns is not None:
        columns |= {name: table.extra_columns[name] for name in table.extra_columns.column_names}
    return pa.table(columns).replace_schema_metadata(code_metadata(table.bits, table.model))


def code_metadata(bits: int, model: str) -> dict[str, str]:
    """Return the metadata for the schema of a file of codes."""
    return {"lbhash": json.dumps({"bits": bits, "model": model, "version": VERSION})}


def code_column(codes: PackedCodes) -> pa.FixedSizeBinaryArray:
    """Return codes ``uint8 [n, bytes]`` as a column of binary values of one length, without a copy."""
    content = [None, pa.py_buffer(np.ascontiguousarray(codes))]
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(codes.shape[1]), len(codes), content)


def read_codes(
    path: str | Path, name: str = "codes", *, bits: int | None = None, labels: str | Path | None = None
) -> CodeTable:
    """Read a file of codes.

    Args:
        path: a file that ``write_codes`` wrote; a folder that ``lbhash encode`` wrote; an ``.npz`` file with an array
            ``codes`` and maybe ``labels``; or an ``.npy`` file of codes. Codes in arrays may have any form that
            ``lbhash.codes.as_packed`` accepts.
        name: name of the argument in error messages.
        bits: length of a code, for arrays that do not determine it.
        labels: an ``.npy`` file with the labels, or a table with a column of them, for files without labels.

    Raises:
        ValueError: the file is missing, damaged, or holds no codes; or the folder is not complete.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/codes.npy", np.array([[64], [192]], np.uint8))
    ...     read_codes(f"{folder}/codes.npy").bits
    8
    """
    folder = check_path(path, name).is_dir()
    file = Path(path) if folder else check_suffix(existing_file(path, name), name, READABLE)
    with refusing(f"{name} is {str(path)!r}, which is damaged or not a file of codes", OSError, EOFError):
        if folder:
            table = _read_folder(file, name)
        elif file.suffix == ".parquet":
            table = _read_parquet(file, name)
        elif file.suffix == ".npz":
            table = _read_npz(file, name, bits)
        else:
            codes, length = as_packed(read_npy(file, name), bits, f"codes of {name}")
            table = CodeTable(codes, length, np.arange(len(codes)))
    if labels is None and table.labels is None and not folder:
        beside = file.with_name(f"{file.stem}_labels.npy")
        labels = beside if beside.is_file() else None
    if labels is not None:
        given = read_labels(read_label_file(labels, f"labels of {name}"), f"labels of {name}")
        table = replace(table, labels=given.numbers, class_names=given.classes)
    width = table.codes.shape[1]
    if (stated := code_bytes(check_bits(table.bits, f"bits of {name}"))) != width:
        says = f"its metadata says {table.bits} bits, which are {stated} bytes"
        raise ValueError(f"{name} holds codes of {width} bytes; {says}")
    if bits is not None and bits != table.bits:
        raise ValueError(f"{name} holds codes of {table.bits} bits; with bits {bits} they must have {bits}")
    if table.labels is not None:
        check_same_rows(table.labels, f"labels of {name}", table.codes, name)
    if table.rows.shape != (len(table.codes),) or table.rows.dtype.kind not in "iu":
        raise ValueError(f"{name} holds {len(table.codes)} codes; its rows must be {len(table.codes)} integers")
    return table


def label_columns(labels: npt.NDArray | None, classes: Sequence[Any]) -> dict[str, Any]:
    """Return labels as a column of a table: ``label``, or ``labels`` with a list in each row; no column for None.

    The column holds the classes, and null for a row without a label.
    """
    if labels is None:
        return {}
    if labels.ndim == 1:
        used = Labels(labels, classes).used()
        return {"label": pa.array(class_array(used.classes)).take(pa.array(used.numbers, mask=~used.known))}
    rows, columns = np.nonzero(labels)
    ends = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(labels)))]).astype(np.int32)
    return {"labels": pa.ListArray.from_arrays(pa.array(ends), pa.array(class_array(classes)).take(pa.array(columns)))}


def _read_folder(folder: Path, name: str) -> CodeTable:
    tables = [table for table, _ in open_parts(folder, name).read(name)]
    return _codes_of(pa.concat_tables(tables, promote_options="permissive"), folder, name)


def _read_parquet(file: Path, name: str) -> CodeTable:
    with suppress(pa.ArrowException, OSError):  # a damaged file is found below
        check_parquet(file, f"{name} is {str(file)!r}, which")
    try:
        table = read_parquet(file)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise OSError(f"{one_line(error)} ({file.name})") from None
    return _codes_of(table, file, name)


def _codes_of(table: pa.Table, file: Path, name: str) -> CodeTable:
    try:
        facts = json.loads((table.schema.metadata or {}).get(b"lbhash", b"{}"))
        stated, model, version = facts.get("bits"), facts.get("model", ""), facts.get("version")
    except (ValueError, AttributeError, RecursionError) as error:
        raise OSError(f"{one_line(error)} ({file.name})") from None
    if facts:
        _check_version(version, f"{name} is {str(file)!r}")
    if "code" not in table.column_names or not pa.types.is_fixed_size_binary(table["code"].type):
        raise ValueError(f"{name} is {str(file)!r}, which has no column 'code' of packed codes")
    width = table["code"].type.byte_width
    if table["code"].null_count:
        raise ValueError(f"{name} is {str(file)!r}, which has rows without a code")
    parts = [np.empty(0, np.uint8)]
    for chunk in filter(len, table["code"].chunks):
        parts.append(np.frombuffer(chunk.buffers()[1], np.uint8, len(chunk) * width, chunk.offset * width))
    codes = np.concatenate(parts).reshape(len(table), width)
    label = next((one for one in ("label", "labels") if one in table.column_names), None)
    labels = None if label is None else read_labels(table[label], f"labels of {name}")
    numbered = "row" in table.column_names and pa.types.is_integer(table["row"].type) and not table["row"].null_count
    rows = table["row"].to_numpy() if numbered else np.arange(len(codes))
    own = [name for name in OWN_COLUMNS if name != "row" or numbered]  # an index may have codes without a row
    extra = table.drop_columns([name for name in own if name in table.column_names])
    about = {key: value for key, value in (table.schema.metadata or {}).items() if key != b"lbhash"}
    columns = extra.replace_schema_metadata(about or None) if extra.column_names else None
    made = CodeTable(codes, 8 * width if stated is None else stated, rows, None, str(model), columns)
    return made if labels is None else replace(made, labels=labels.numbers, class_names=labels.classes)


def _check_version(version: Any, source: str) -> None:
    if version != VERSION:
        raise other_format(source, version if isinstance(version, int) else 1, VERSION, "encode again")


def _read_npz(file: Path, name: str, bits: int | None) -> CodeTable:
    check_npz(file, f"{name} is {str(file)!r}, which")
    try:
        found = read_npz(file)
    except ValueError as error:
        raise OSError(str(error)) from None
    if "codes" not in found:
        raise ValueError(f"{name} is {str(file)!r}, which has no array 'codes' (it has {', '.join(found)})")
    codes = found["codes"]
    if "model" in found:
        _check_version(found.get("version"), f"{name} is {str(file)!r}")
    given = check_bits(int(found["bits"]), f"bits of {name}") if "bits" in found else None
    if given is not None and codes.dtype == np.uint8 and codes.shape[1:] == (code_bytes(given),):
        length = given  # write_codes wrote them: they are packed, even if all bytes are 0 or 1
    else:
        codes, length = as_packed(codes, given or bits, f"codes of {name}")
    table = CodeTable(codes, length, found.get("rows", np.arange(len(codes))), model=str(found.get("model", "")))
    if "labels" not in found:
        return table
    if "classes" in found and not found["classes"].shape:  # write_codes wrote them
        with reading(name, file):
            return replace(table, labels=found["labels"], class_names=json.loads(str(found["classes"])))
    labels = read_labels(found["labels"], f"labels of {name}")
    return replace(table, labels=labels.numbers, class_names=labels.classes)
