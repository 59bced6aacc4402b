"""Codes without labels: recall of the true nearest neighbors against bytes a row. Writes a part of ``--out``.

    python -m benchmarks.experiments.label_free --data clinc100=FILE --data cifar10=FILE

A data set is NAME=FILE; FILE may be "digits". Only its train split is used: some of its rows are asked, and the coders
see and store the others. Queries and labels are never looked at, so that a default may be chosen by the table. Each
line leaves a JSON file under ``--runs``; an interrupted table goes on with the lines that are missing.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from benchmarks.experiments.contenders import few_dimensions, iterative_quantization, product_quantization
from benchmarks.experiments.page import check_part, markdown_table, replace_part

from lbhash.training.coders import CODERS
from lbhash.utils.parallel import run_missing

PART = "label-free"
ASKED = 1000
"""Train rows that are asked; a fifth of the rows, if these are fewer."""
RECALLS = (10, 100)
FREE = tuple(name for name, kind in CODERS.items() if not kind.needs_labels)


class Line(NamedTuple):
    """A line of the table, of one seed."""

    data: str
    method: str
    sizes: tuple[int, ...]  # in bytes
    seed: int

    @property
    def name(self) -> str:
        """The name of the cell's file."""
        sizes = "+".join(map(str, self.sizes))
        return f"{self.data}-{self.method.replace(' ', '-').replace(',', '')}-{sizes}bytes-seed{self.seed}"


@cache
def _work(file: str) -> Any:
    """Return asked and stored rows as the contenders of the table of alternatives see them."""
    from benchmarks.experiments.contenders import Work

    from lbhash.data import Dataset, EmbeddingSplit, load_dataset

    rows = load_dataset(file).train.take(slice(None))
    order = np.random.default_rng(0).permutation(len(rows))
    asked = min(ASKED, len(rows) // 5)
    query, base = (
        EmbeddingSplit(rows, part, np.zeros(len(part), np.int64)) for part in (order[:asked], np.sort(order[asked:]))
    )
    return Work(Dataset(Path(file).stem, "train rows", base, base, query))


def execute(line: Line, file: str) -> dict[str, Any]:
    """Fit one method at every size and measure its recalls; a size at which it has no code is missing."""
    from benchmarks.experiments.scored import expected_recall

    work = _work(file)
    wanted = work.nearest(slice(None), max(RECALLS))
    result: dict[str, Any] = {**line._asdict(), "recalls": {}}
    for size in line.sizes:
        scores = SCORES.get(line.method, partial(_of_coder, line.method))(work, size, line.seed)
        if scores is not None:
            result["recalls"][str(size)] = [float(expected_recall(scores, wanted[:, :k]).mean()) for k in RECALLS]
    return result


def _of_coder(method: str, work: Any, size: int, seed: int) -> Any:
    from lbhash.codes import hamming_distances
    from lbhash.hasher import Hasher

    base = work.base_part.with_rows(work.base_part.rows, None)
    hasher = Hasher(8 * size, method, seed=seed).fit_split(base, 0)
    return hamming_distances(hasher.encode_split(work.dataset.query), hasher.train_codes_)


def _of_contender(name: str, made: Callable[..., Iterator[Any]], work: Any, *settings: int) -> Any:
    return next((one.scores(slice(None)) for one in made(work, *settings) if one.name == name), None)


def _itq(work: Any, size: int, seed: int) -> Any:
    return _of_contender("FAISS ITQ", iterative_quantization, work, 8 * size, seed)


def _pq(name: str, work: Any, size: int, seed: int) -> Any:
    return _of_contender(name, product_quantization, work, 8 * size, seed)


def _first(work: Any, size: int, seed: int) -> Any:
    return _of_contender("first dimensions, signs", few_dimensions, work, 8 * size)


def _rabitq(work: Any, size: int, seed: int) -> Any:
    """FAISS's RaBitQ of as many principal components, turned at random, as fit beside its two numbers a row."""
    import faiss

    dimensions = 8 * (size - 8)
    if not 0 < dimensions <= work.dim:
        return None
    index: Any = faiss.index_factory(work.dim, f"PCAR{dimensions},RaBitQ")
    index.train(work.train)
    index.add(work.base)
    assert index.sa_code_size() == size
    distances, found = index.search(work.query, len(work.base))
    scores = np.empty_like(distances)
    np.put_along_axis(scores, found, distances, 1)
    return scores


SCORES: dict[str, Callable[[Any, int, int], Any]] = {
    "FAISS ITQ": _itq,
    **{name: partial(_pq, name) for name in ("FAISS PQ", "FAISS OPQ + PQ")},
    "FAISS RaBitQ": _rabitq,
    "first dimensions, signs": _first,
}
"""What is set beside the coders: functions of rows, bytes and seed that return scores."""


def main() -> None:
    """Run what is missing, and write the part of the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, metavar="NAME=FILE", help="may be given often")
    parser.add_argument("--bytes", nargs="+", type=int, default=[2, 4, 8, 16, 32])
    parser.add_argument("--methods", nargs="+", choices=[*FREE, *SCORES], default=[*FREE, *SCORES])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--out", type=Path, default=Path("docs/training.md"))
    parser.add_argument("--runs", type=Path, default=Path("runs/label-free"), help="folder of the lines' JSON files")
    parser.add_argument("--workers", type=int, default=1, help="lines at a time, one thread each")
    given = parser.parse_args()
    runs: dict[str, tuple[Line, str]] = {}
    for one in given.data:
        name, _, file = one.partition("=")
        try:
            check_part(given.out, PART)
            rows = _work(file).base if name else None
        except (TypeError, ValueError) as error:
            parser.error(str(error))
        if rows is None:
            parser.error(f"data is {one!r}; it must be NAME=FILE")
        for method, seed in product(given.methods, given.seeds):
            line = Line(name, method, tuple(given.bytes), seed)
            runs[line.name] = (line, file)
    results, _ = run_missing(
        runs,
        execute,
        given.runs,
        given.workers,
        lambda result: " ".join(f"{found[0]:.3f}" for found in result["recalls"].values()),
    )
    words = [word for one in given.data for word in ("--data", f"{one.partition('=')[0]}=FILE")]
    words += ["--methods", *given.methods, "--seeds", *map(str, given.seeds)]
    command = f"python -m benchmarks.experiments.label_free {shlex.join(words)}"
    replace_part(given.out, PART, page(list(results.values()), command))


def page(results: list[dict[str, Any]], command: str) -> str:
    """The tables in Markdown, one for each data set; the best of a column in bold."""
    parts = [f"Made by `{command}`.\n"]
    for data in dict.fromkeys(result["data"] for result in results):
        cells: dict[tuple[str, int], list[list[float]]] = {}
        for result in results:
            for size, recalls in result["recalls"].items() if result["data"] == data else ():
                cells.setdefault((result["method"], int(size)), []).append(recalls)
        sizes = sorted({size for _, size in cells})
        found = {key: [fmean(at) for at in zip(*of, strict=True)] for key, of in cells.items()}
        best = {
            (size, at): max(values[at] for (_, other), values in found.items() if other == size)
            for size in sizes
            for at in range(len(RECALLS))
        }
        rows = []
        for method in dict.fromkeys(method for method, _ in cells):
            row = [method]
            for size in sizes:
                values = found.get((method, size))
                shown = [f"{value:.3f}" for value in values or ()]
                marked = (
                    [f"**{text}**" if values[at] == best[size, at] else text for at, text in enumerate(shown)]
                    if values
                    else []
                )
                row.append(" / ".join(marked) or "–")
            rows.append(row)
        columns = ["method", *(f"{size} bytes" for size in sizes)]
        parts.append(f"**{data}**\n\n{markdown_table(columns, rows, left=0)}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    main()
