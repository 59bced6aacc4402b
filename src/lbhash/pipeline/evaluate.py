"""Evaluate two files of codes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lbhash.codes.deephash import read_deephash
from lbhash.codes.io import read_codes
from lbhash.evaluation.report import Report, evaluate
from lbhash.pipeline import runs
from lbhash.utils.labels import renumbered


def evaluate_files(
    queries: str | Path | None,
    base: str | Path | None,
    *,
    deephash: str | Path | None = None,
    query_labels: str | Path | None = None,
    base_labels: str | Path | None = None,
    bits: int | None = None,
    write_run: str | Path | None = None,
    write_qrels: str | Path | None = None,
    **options: Any,
) -> Report:
    """Evaluate one file of codes (``lbhash.codes.io.read_codes``) as queries against another as base.

    Both may be replaced by ``deephash``, a folder of DeepHash-pytorch. Labels that a file lacks come from an ``.npy``,
    and the length of codes from ``bits``. ``write_run`` and ``write_qrels`` are files for the ranking, as long as
    ``top_k`` or 1,000, and for what is relevant (``lbhash.pipeline.runs``). The other options are of
    ``lbhash.evaluate``.
    """
    if deephash is not None:
        if not (queries is base is query_labels is base_labels is None):
            raise ValueError("deephash is a folder with queries, base and labels of its own; give it alone")
        left, right = read_deephash(deephash)
    elif queries is None or base is None:
        missing = "queries" if queries is None else "base"
        raise ValueError(f"{missing} is missing; give queries and base, two files of codes, or deephash, a folder")
    else:
        left = read_codes(queries, "queries", bits=bits, labels=query_labels)
        right = read_codes(base, "base", bits=bits, labels=base_labels)
    if left.bits != right.bits:
        what = f"base holds codes of {right.bits} bits and queries has {left.bits}"
        raise ValueError(f"{what}; encode both with one model")
    if left.model and right.model and left.model != right.model:
        what = f"base was encoded by model {right.model} and queries by {left.model}"
        raise ValueError(f"{what}; encode both with one model")
    for table, name in ((left, "queries"), (right, "base")):
        if table.labels is None:
            raise ValueError(f"{name} has no labels; an evaluation needs them")
    wanted, labels = left.labels, right.labels
    if left.class_names or right.class_names:
        if not (left.class_names and right.class_names):
            kinds = [f"names, such as {t.class_names[0]!r}" if t.class_names else "numbers" for t in (left, right)]
            said = f"labels of queries are {kinds[0]}, and those of base {kinds[1]}"
            raise ValueError(f"{said}; both must be the same: encode both from labels of one kind")
        names = sorted({*left.class_names, *right.class_names})
        wanted, labels = (renumbered(np.asarray(t.labels), t.class_names, names) for t in (left, right))
    report = evaluate(left.codes, wanted, right.codes, labels, bits=left.bits, **options)
    if write_run is not None:
        runs.write_run(write_run, left, right, options.get("top_k"))
    if write_qrels is not None:
        runs.write_qrels(write_qrels, replace(left, labels=wanted), replace(right, labels=labels))
    return report
