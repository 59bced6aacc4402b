"""Encode a file of data into a file of codes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lbhash.codes.io import CodeTable, check_suffix, write_codes
from lbhash.hasher import load_hasher
from lbhash.pipeline.columns import carried_columns, check_carry
from lbhash.pipeline.splits import model_split

if TYPE_CHECKING:
    from lbhash.pipeline.embeddings import ImageOptions


def encode_file(
    model: str | Path,
    data: str | Path,
    split: str,
    out: str | Path,
    *,
    base: str | Path | None = None,
    query: str | Path | None = None,
    labels: str | Path | None = None,
    protocol: str | None = None,
    split_seed: int | None = None,
    images: ImageOptions | None = None,
    carry: Sequence[str] = (),
) -> dict[str, Any]:
    """Encode a split of a data set, or ``all`` the rows of a file, into a file of codes.

    ``lbhash.pipeline.encoding.encode_folder`` writes a folder of them, with the same memory for any number of rows.

    Protocol and seed of the split are those of the training where they are not given, so that no training row
    slips into the queries. Multi-hot labels get as many columns as those of the training had, so that files that are
    encoded one at a time go together. Images are embedded first; ``images`` says how. ``carry`` names columns of the
    data that go into the file of codes too, and with it into an index.
    """
    check_suffix(out)
    for name, file in (("data", data), ("base", base), ("query", query), ("labels", labels)):
        if file is not None and Path(file).exists() and Path(out).exists() and Path(out).samefile(file):
            raise ValueError(f"out is {str(out)!r}, which is {name} itself; give another file")
    if carry and Path(out).suffix != ".parquet":
        raise ValueError(f"carry is given and out is {str(out)!r}; only a .parquet file holds further columns")
    carry = check_carry(data, carry, alone=base is None and query is None)
    hasher = load_hasher(model)
    columns = carried_columns(data, carry, hasher, images)
    part = model_split(
        hasher,
        data,
        split,
        base=base,
        query=query,
        labels=labels,
        protocol=protocol,
        split_seed=split_seed,
        images=images,
    )
    codes = hasher.encode_split(part)
    further = None if columns is None else columns.take(part.rows)
    write_codes(out, CodeTable(codes, hasher.bits, part.rows, part.labels, hasher.model_.fingerprint(), further))
    return {"codes": len(codes), "bits": hasher.bits, "bytes": codes.nbytes, "split": split, "out": str(out)}
