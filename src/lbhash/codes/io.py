"""Files of codes: packed codes with their labels and the rows they come from, as Parquet or ``.npz``.

A folder of such Parquet files is read as one (``lbhash.codes.shards``). Codes of other programs are read from ``.npz``
and ``.npy`` files too, packed or with a column a bit.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, as_packed, check_bits, code_bytes
from lbhash.codes.shards import complete_shards
from lbhash.utils.files import existing_file, read_npy, replacing
from lbhash.utils.labels import check_labels

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".parquet", ".npz")
READABLE = (*SUFFIXES, ".npy")
OWN_COLUMNS = ("row", "code", "label", "labels")
"""What the columns of a Parquet file of codes mean here; any others are the user's own."""


@dataclass(frozen=True)
class CodeTable:
    """Codes and what belongs to them.

    Attributes:
        codes: ``uint8 [n, ceil(bits / 8)]``.
        bits: h.
        rows: position of each in the file that was encoded, ``int64 [n]``.
        labels: ``int64 [n]``, or multi-hot ``uint8 [n, C]``; ``None`` where there are none.
        model: fingerprint of the model that made them; empty where it is not known.
        further: the other columns of a Parquet file; ``None`` where there are none.
    """

    codes: PackedCodes
    bits: int
    rows: npt.NDArray[np.int64]
    labels: npt.NDArray | None = None
    model: str = ""
    further: pa.Table | None = None


def check_suffix(path: str | Path, name: str = "out", suffixes: tuple[str, ...] = SUFFIXES) -> Path:
    """Return ``path``, or raise ``ValueError`` unless it ends as a file of codes does."""
    file = Path(path)
    if file.suffix not in suffixes:
        raise ValueError(f"{name} is {str(path)!r}; it must end in {' or '.join(suffixes)}")
    return file


def write_codes(path: str | Path, table: CodeTable, facts: Mapping[str, Any] | None = None) -> None:
    """Write codes to a ``.parquet`` (columns ``row``, ``code``, ``label`` or ``labels``) or an ``.npz`` file.

    Args:
        path: the file.
        table: the codes.
        facts: what the metadata of a ``.parquet`` are to say besides (``read_facts``).
    """
    file = check_suffix(path)
    with replacing(file) as temporary:
        if file.suffix == ".parquet":
            _write_parquet(temporary, table, facts or {})
        else:
            held = {"codes": table.codes, "bits": np.array(table.bits), "rows": table.rows}
            if table.labels is not None:
                held["labels"] = table.labels
            np.savez(temporary, **held, model=np.array(table.model))  # type: ignore[arg-type]


def read_codes(
    path: str | Path,
    name: str = "codes",
    *,
    bits: int | None = None,
    labels: str | Path | None = None,
) -> CodeTable:
    """Read a file of codes.

    Args:
        path: a file that ``write_codes`` wrote; a folder that ``lbhash encode`` wrote; an ``.npz`` with an array
            ``codes`` and, maybe, ``labels``; or an ``.npy`` of codes. Codes in arrays may have any form that
            ``lbhash.codes.as_packed`` takes.
        name: of the argument, for messages.
        bits: length of a code, for arrays that do not say.
        labels: an ``.npy`` with the labels, for files that have none of their own: class numbers or multi-hot.

    Raises:
        ValueError: the file is missing, damaged, or holds no codes; or the folder is not complete.
    """
    folder = Path(path).is_dir()
    file = Path(path) if folder else check_suffix(existing_file(path, name), name, READABLE)
    try:
        if folder:
            table = _read_folder(file, name)
        elif file.suffix == ".parquet":
            table = _read_parquet(file, name)
        else:
            table = _read_npz(file, name, bits) if file.suffix == ".npz" else _read_npy(file, name, bits)
    except (OSError, EOFError, zipfile.BadZipFile) as error:
        line = str(error).splitlines()[0]
        raise ValueError(f"{name} is {str(path)!r}, which is damaged or no file of codes: {line}") from None
    if labels is not None:
        table = replace(table, labels=check_labels(read_array(labels, f"labels of {name}"), f"labels of {name}"))
    if code_bytes(check_bits(table.bits, f"bits of {name}")) != table.codes.shape[1]:
        raise ValueError(f"{name} says {table.bits} bits a code and holds {table.codes.shape[1]} bytes")
    if bits is not None and bits != table.bits:
        raise ValueError(f"{name} holds codes of {table.bits} bits; with bits {bits} they must have as many")
    if table.labels is not None and len(table.labels) != len(table.codes):
        raise ValueError(f"{name} holds {len(table.codes)} codes and {len(table.labels)} labels")
    if table.rows.shape != (len(table.codes),) or table.rows.dtype.kind not in "iu":
        raise ValueError(f"{name} holds {len(table.codes)} codes and no integer row for each")
    return table


def read_array(path: str | Path, name: str) -> npt.NDArray:
    """Read an ``.npy`` file; ``ValueError`` names the argument where it is missing, damaged or a pickle."""
    file = existing_file(path, name)
    try:
        return read_npy(file)
    except (OSError, ValueError, EOFError) as error:
        line = (str(error) or type(error).__name__).splitlines()[0]
        raise ValueError(f"{name} is {str(path)!r}, which is damaged or no .npy file: {line}") from None


def label_columns(labels: npt.NDArray | None) -> dict[str, Any]:
    """Labels as a column of a table: ``label``, or ``labels`` with lists of them; none where there are no labels."""
    import pyarrow as pa

    if labels is None:
        return {}
    if labels.ndim == 1:
        return {"label": pa.array(labels)}
    rows, classes = np.nonzero(labels)
    ends = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(labels)))]).astype(np.int32)
    return {"labels": pa.ListArray.from_arrays(pa.array(ends), pa.array(classes))}


def read_facts(file: Path) -> dict[str, Any]:
    """What a Parquet file of codes says of itself, and how many it holds (``count``), without reading these.

    Raises:
        ValueError: it is missing, damaged, or no file of codes.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(file)
        facts = json.loads((metadata.metadata or {})[b"lbhash"])
        return {**facts, "count": metadata.num_rows}
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
        line = " ".join(str(error).split())
        raise ValueError(f"{str(file)!r} is damaged or no file of codes: {line}") from None


def _write_parquet(file: Path, table: CodeTable, more: Mapping[str, Any]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    width = table.codes.shape[1]
    code = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(width), len(table.codes), [None, pa.py_buffer(np.ascontiguousarray(table.codes))]
    )
    columns = {"row": pa.array(table.rows), "code": code, **label_columns(table.labels)}
    if table.further is not None:
        columns |= {name: table.further[name] for name in table.further.column_names}
    classes = table.labels.shape[1] if table.labels is not None and table.labels.ndim == 2 else 0
    facts = {"bits": table.bits, "model": table.model, "classes": classes, **more}
    pq.write_table(pa.table(columns).replace_schema_metadata({"lbhash": json.dumps(facts)}), file)


def _read_folder(folder: Path, name: str) -> CodeTable:
    """The shards of a folder as one table."""
    import pyarrow as pa

    manifest, shards = complete_shards(folder, name)
    tables = [_read_parquet(folder / shard.name, name) for shard in shards]
    held = [table for table in tables if len(table.codes)] or tables[:1]  # all images of a shard may be damaged
    count = sum(len(table.codes) for table in held)
    if {(table.bits, table.model) for table in held} != {(manifest["bits"], manifest["model"])}:
        raise ValueError(f"{name} is {str(folder)!r}, whose shards are not all of the model that its manifest names")
    if count != manifest["complete"]["codes"]:
        raise ValueError(
            f"{name} is {str(folder)!r}, whose shards hold {count:,} codes and not the "
            f"{manifest['complete']['codes']:,} that its manifest says; run its 'lbhash encode' again"
        )
    labels = [table.labels for table in held if table.labels is not None]
    further = [table.further for table in held if table.further is not None]
    return CodeTable(
        np.concatenate([table.codes for table in held]),
        held[0].bits,
        np.concatenate([table.rows for table in held]),
        np.concatenate(labels) if labels else None,
        held[0].model,
        pa.concat_tables(further) if further else None,
    )


def _read_parquet(file: Path, name: str) -> CodeTable:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(file)
    except pa.ArrowInvalid as error:
        raise OSError(str(error)) from None
    if "code" not in table.column_names or not pa.types.is_fixed_size_binary(table["code"].type):
        raise ValueError(f"{name} is {str(file)!r}, which has no column 'code' of packed codes")
    width = table["code"].type.byte_width
    if table["code"].null_count:
        raise ValueError(f"{name} is {str(file)!r}, which has rows without a code")
    parts = [
        np.frombuffer(chunk.buffers()[1], np.uint8, len(chunk) * width, chunk.offset * width).reshape(-1, width)
        for chunk in table["code"].chunks
        if len(chunk)
    ]
    codes = np.concatenate(parts) if parts else np.empty((0, width), np.uint8)
    facts = json.loads((table.schema.metadata or {}).get(b"lbhash", b"{}"))
    labels = None
    if "label" in table.column_names:
        labels = check_labels(table["label"].to_numpy(), f"labels of {name}")
    elif "labels" in table.column_names:
        labels = check_labels(table["labels"].to_pylist(), f"labels of {name}", classes=facts.get("classes"))
    rows = table["row"].to_numpy() if "row" in table.column_names else np.arange(len(codes))
    further = table.drop_columns([name for name in OWN_COLUMNS if name in table.column_names])
    others = further.replace_schema_metadata(None) if further.column_names else None
    return CodeTable(codes, facts.get("bits", 8 * width), rows, labels, facts.get("model", ""), others)


def _read_npz(file: Path, name: str, bits: int | None) -> CodeTable:
    try:
        with np.load(file, allow_pickle=False) as arrays:
            held = {key: arrays[key] for key in arrays.files}
    except (ValueError, TypeError, zlib.error) as error:
        raise OSError(str(error)) from None
    if "codes" not in held:
        raise ValueError(f"{name} is {str(file)!r}, which has no array 'codes' (it has {', '.join(held)})")
    codes = held["codes"]
    given = check_bits(int(held["bits"]), f"bits of {name}") if "bits" in held else None
    if given is not None and codes.dtype == np.uint8 and codes.shape[1:] == (code_bytes(given),):
        length = given  # as write_codes has them, whatever their bytes
    else:
        codes, length = as_packed(codes, given or bits, f"codes of {name}")
    labels = check_labels(held["labels"], f"labels of {name}") if "labels" in held else None
    return CodeTable(codes, length, held.get("rows", np.arange(len(codes))), labels, str(held.get("model", "")))


def _read_npy(file: Path, name: str, bits: int | None) -> CodeTable:
    codes, length = as_packed(read_array(file, name), bits, f"codes of {name}")
    return CodeTable(codes, length, np.arange(len(codes)))
