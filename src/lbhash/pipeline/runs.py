"""Run and qrels files of TREC, which ir_measures and ranx read, too: written of codes, and evaluated as they are."""

from __future__ import annotations

import math
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from lbhash.codes.io import CodeTable
from lbhash.evaluation import metrics
from lbhash.evaluation.metrics import Empty, Normalize, mean_over_queries
from lbhash.evaluation.ranking import Ranking
from lbhash.evaluation.report import RANKS
from lbhash.index import FlatIndex
from lbhash.utils.files import existing_file, replacing
from lbhash.utils.labels import check_label_pair
from lbhash.utils.validation import check_int

DEPTH = 1000
"""How many base codes a run has of each query if nothing else is said."""

_BEYOND = 1 << 50  # irrelevant documents between the end of a list and the relevant ones that it lacks
_BLOCK = 256  # queries at a time


def write_run(path: str | Path, queries: CodeTable, base: CodeTable, top_k: int | None = None) -> None:
    """Write the nearest base codes of each query, ``query Q0 id rank score lbhash``; the score is minus the distance.

    Ties are in the order of the base. The names are the column ``id`` of a file of codes, or the rows.
    """
    names, others = _names(queries, "queries"), _names(base, "base")
    index = FlatIndex(base.bits)
    index.add(base.codes)
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as opened:
        for start in range(0, len(names), _BLOCK):
            found = index.search(queries.codes[start : start + _BLOCK], top_k or DEPTH)
            for name, *lists in zip(names[start:], found.ids.tolist(), found.distances.tolist(), strict=False):
                ranked = enumerate(zip(*lists, strict=True), 1)
                opened.writelines(f"{name} Q0 {others[at]} {rank} {-far} lbhash\n" for rank, (at, far) in ranked)


def write_qrels(path: str | Path, queries: CodeTable, base: CodeTable) -> None:
    """Write which base codes are relevant to each query, ``query 0 id grade``: the number of labels that they share."""
    names, others = _names(queries, "queries"), _names(base, "base")
    wanted, labels = check_label_pair(queries.labels, base.labels)
    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as opened:
        for name, row in zip(names, wanted, strict=True):
            grades = labels == row if labels.ndim == 1 else labels.astype(np.int64) @ row.astype(np.int64)
            opened.writelines(f"{name} 0 {others[at]} {int(grades[at])}\n" for at in np.flatnonzero(grades))


def evaluate_run(
    run: str | Path | None,
    qrels: str | Path | None,
    *,
    top_k: int | None = None,
    ranks: list[int] | None = None,
    normalize: Normalize = "retrieved",
    empty: Empty = "skip",
) -> dict[str, Any]:
    """Evaluate a run by its scores, exactly under ties; a relevant document that a list lacks comes after all others.

    mAP is over all relevant documents, as in ir_measures; with ``top_k`` it is as for ``evaluate``. A query without a
    list scores 0. Ranks and list positions are by score alone.

    Args:
        run: lines ``query Q0 document rank score tag``.
        qrels: lines ``query 0 document grade``; a grade from 1 is relevant.
        top_k: the length of the list for mAP@k and NDCG; NDCG is by default over the longest list.
        ranks: the K of precision, recall and F1; by default 1, 10, 100 and 1,000 up to the longest list.
        normalize: as for ``evaluate``.
        empty: as for ``evaluate``.
    """
    if run is None or qrels is None:
        missing = "run" if run is None else "qrels"
        raise ValueError(f"{missing} is missing; give run and qrels, two files in the format of TREC")
    relevant = _read(qrels, "qrels", "query 0 document grade", 3, int)
    scored = _read(run, "run", "query Q0 document rank score tag", 4, float)
    if not any(grade > 0 for grades in relevant.values() for grade in grades.values()):
        raise ValueError(f"qrels is {str(qrels)!r}, in which no document is relevant, so there is nothing to evaluate")
    ranking, depth = _ranking(scored, relevant)
    if not depth:
        raise ValueError(f"run is {str(run)!r}, which has none of the queries of qrels; both must name them alike")
    top_k = None if top_k is None else check_int(top_k, "top_k", 1)
    ranks = ranks or [rank for rank in RANKS if rank <= depth]
    ranks = sorted({check_int(rank, "ranks", 1) for rank in ranks})
    figures: dict[str, Any] = {
        "map": metrics.average_precision(ranking, top_k, "expected", normalize),
        "map_worst": metrics.average_precision(ranking, top_k, "worst", normalize),
        "map_best": metrics.average_precision(ranking, top_k, "best", normalize),
        "ndcg": metrics.ndcg_at(ranking, min(top_k or depth, max(depth, int(ranking.relevant.sum(axis=1).max())))),
        "r_precision": metrics.r_precision(ranking),
    }
    means: dict[str, Any] = {name: mean_over_queries(values, empty) for name, values in figures.items()}
    some = ranking.relevant.any(axis=1)
    for name in ("precision_at", "recall_at", "f1_at"):
        found = [np.where(some, getattr(metrics, name)(ranking, rank), np.nan) for rank in ranks]
        means[name] = [mean_over_queries(values, empty) for values in found]
    counts = {"queries": ranking.queries, "empty_queries": int((~some).sum()), "depth": depth}
    return {**means, "ranks": ranks, "top_k": top_k, "normalize": normalize, "empty": empty, **counts}


def _ranking(scored: dict[str, dict[str, Any]], relevant: dict[str, dict[str, Any]]) -> tuple[Ranking, int]:
    """Return the ranking of each query of the qrels, ties in one group, and the length of the longest list."""
    lists = {name: scored.get(name, {}) for name in relevant}
    groups = max((len(set(scores.values())) for scores in lists.values()), default=0)
    grades = max(grade for found in relevant.values() for grade in found.values())
    check_int(grades, "the largest grade of qrels", 1, 255)
    total = np.zeros((len(lists), groups + 2), np.int64)
    graded = np.zeros((len(lists), grades, groups + 2), np.int64)
    total[:, -2] = _BEYOND
    for row, (name, scores) in enumerate(lists.items()):
        place = {score: at for at, score in enumerate(sorted(set(scores.values()), reverse=True))}
        for score in scores.values():
            total[row, place[score]] += 1
        for document, grade in relevant[name].items():
            if grade > 0:
                at = place[scores[document]] if document in scores else -1
                graded[row, grade - 1, at] += 1
                total[row, -1] += at == -1
    return Ranking(total, graded), max((len(scores) for scores in lists.values()), default=0)


def _read(path: str | Path, name: str, form: str, column: int, kind: type) -> dict[str, dict[str, Any]]:
    """Return the number of each document, by query."""
    found: dict[str, dict[str, Any]] = defaultdict(dict)
    with existing_file(path, name).open(encoding="utf-8", errors="replace") as opened:
        for number, line in enumerate(opened, 1):
            if not (words := line.split()):
                continue
            try:
                value = kind(words[column]) if len(words) == len(form.split()) else math.nan
            except ValueError:
                value = math.nan
            if math.isnan(value) or words[2] in found[words[0]]:
                wanted = f"{form!r}, and name a document of a query once"
                shown = line.strip()[:80]
                raise ValueError(f"{name} is {str(path)!r}, whose line {number} is {shown!r}; it must be {wanted}")
            found[words[0]][words[2]] = value
    return found


def _names(table: CodeTable, which: str) -> list[str]:
    """Return the names of codes: the column ``id``, or the rows."""
    extra = table.extra_columns
    values = extra["id"].to_pylist() if extra is not None and "id" in extra.column_names else table.rows.tolist()
    names = [str(value) for value in values]
    if len(set(names)) < len(names):
        raise ValueError(f"{which} has the same id or row twice; the names in a run must differ")
    if wrong := [name for name in names if name.split() != [name]]:
        raise ValueError(f"{which} has the id {wrong[0]!r}; a name in a run is one word")
    return names
