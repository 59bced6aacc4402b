"""Evaluate two files of codes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lbhash.codes.io import CodeTable, check_one_model, read_codes
from lbhash.data import load_table
from lbhash.evaluation.neighbors import NeighborReport, evaluate_neighbors
from lbhash.evaluation.report import Report, evaluate, evaluate_parts
from lbhash.pipeline.cluster import Engine, check_engine, sharing
from lbhash.utils.labels import Labels, in_one_order, rows_with_label

_ROWS = 100  # fewest rows of a part of a base on a cluster
_TASKS = 4  # tasks per core of the cluster, so no core waits long for the last task


def evaluate_file_neighbors(
    queries: str | Path,
    base: str | Path,
    embeddings: Sequence[str | Path],
    *,
    k: Sequence[int] | None = None,
    bits: int | None = None,
    rerank: Sequence[int] = (),
) -> NeighborReport:
    """Evaluate two files of codes by the neighbors among their embeddings (``evaluate_neighbors``).

    ``embeddings`` names the file that both were encoded from, or one file for the queries and one for the base. The
    codes' ``rows`` tell which of its rows they encode.
    """
    left, right = _two_files(queries, base, bits, None, None)
    if len(embeddings) not in (1, 2):
        raise ValueError(f"neighbors names {len(embeddings)} files; it must be one, or those of queries and base")
    tables = [load_table(file, damaged="skip") for file in embeddings]  # skipped rows have no codes
    if len(set(map(os.path.realpath, embeddings))) == 1:
        both = np.intersect1d(left.rows, right.rows)
        if len(both):
            said = f"row {both[0]} of {embeddings[0]} is in queries and in base ({len(both)} rows are)"
            raise ValueError(f"{said}, and would find itself; encode --split query and --split base")
    found = []
    for codes, table, name in ((left, tables[0], "queries"), (right, tables[-1], "base")):
        if len(codes.rows) and codes.rows.max() >= len(table):
            said = f"{name} has a code of row {codes.rows.max()}, and {table.name} has {len(table)} rows"
            raise ValueError(f"{said}; give the file that was encoded")
        found.append(table.split(codes.rows).take(slice(None)))
    return evaluate_neighbors(left.codes, found[0], right.codes, found[1], k, left.bits, rerank)


def evaluate_files(
    queries: str | Path,
    base: str | Path,
    *,
    query_labels: str | Path | None = None,
    base_labels: str | Path | None = None,
    bits: int | None = None,
    engine: Engine | None = None,
    ray_address: str | None = None,
    **options: Any,
) -> Report:
    """Evaluate one file of codes (``lbhash.codes.io.read_codes``) as queries against another as base.

    If a file lacks labels, they come from an ``.npy`` file; if it lacks the code length, this comes from ``bits``. The
    engine is ``local`` (this process) or ``ray``: this process reads the base and sends it in parts to a cluster; if
    ``ray_address`` is None, to a new cluster on this machine. The other options are those of ``lbhash.evaluate``.
    """
    check_engine(engine)
    left, right = _two_files(queries, base, bits, query_labels, base_labels)
    for table, name in ((left, "queries"), (right, "base")):
        if table.labels is None:
            raise ValueError(
                f"{name} has no labels; an evaluation needs them, or the embeddings that were encoded (--neighbors)"
            )
    left, right = _labeled(left, "queries"), _labeled(right, "base")
    wanted, labels = in_one_order({"queries": _labels(left), "base": _labels(right)})
    options = {"bits": left.bits, **options}
    if engine == "ray":
        with sharing(ray_address) as (cores, share):
            step = max(_ROWS, -(-len(right.codes) // (_TASKS * cores)))
            cuts = range(step, len(right.codes), step)
            pieces = np.split(right.codes, cuts), np.split(labels.numbers, cuts)
            parts = [(codes, Labels(some, labels.classes)) for codes, some in zip(*pieces, strict=True)]
            return evaluate_parts(left.codes, wanted, parts, share=share, **options)
    return evaluate(query_codes=left.codes, query_labels=wanted, base_codes=right.codes, base_labels=labels, **options)


def _two_files(
    queries: str | Path,
    base: str | Path,
    bits: int | None,
    query_labels: str | Path | None,
    base_labels: str | Path | None,
) -> tuple[CodeTable, CodeTable]:
    """Read two files of codes of one model, with missing labels from other files."""
    left = read_codes(queries, "queries", bits=bits, labels=query_labels)
    right = read_codes(base, "base", bits=bits, labels=base_labels)
    if bits is None and left.bits != right.bits:  # few packed codes may look like plain 0s and 1s
        length = max(left.bits, right.bits)
        with suppress(ValueError):
            left = read_codes(queries, "queries", bits=length, labels=query_labels)
            right = read_codes(base, "base", bits=length, labels=base_labels)
    check_one_model("base", right.bits, right.model, "queries", left.bits, left.model)
    return left, right


def _labels(table: CodeTable) -> Labels:
    assert table.labels is not None
    return Labels(table.labels, table.class_names)


def _labeled(table: CodeTable, name: str) -> CodeTable:
    """Return only the codes that have a label."""
    assert table.labels is not None
    known = rows_with_label(table.labels, f"codes of {name}")
    if len(known) < len(table.codes):
        extra = None if table.extra_columns is None else table.extra_columns.take(known)
        kept = {name: getattr(table, name)[known] for name in ("codes", "rows", "labels")}
        table = replace(table, **kept, extra_columns=extra)
    return table
