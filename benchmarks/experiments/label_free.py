"""Codes without labels: recall of the true nearest neighbors against bytes a row. Writes a part of ``--out``.

    python -m benchmarks.experiments.label_free --data clinc100=FILE --data cifar10=FILE

A data set is NAME=FILE; FILE may be "digits". Only its train split is used: some of its rows are asked, and the coders
see and store the others. Queries and labels are never looked at, so that a default may be chosen by the table. Each
cell leaves a JSON file under ``--runs``; an interrupted table goes on with the cells that are missing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import cache, partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from benchmarks.experiments.page import check_part, markdown_table, replace_part

from lbhash.training.coders import CODERS
from lbhash.utils.parallel import run_missing

PART = "label-free"
ASKED = 1000
"""Train rows that are asked; a fifth of the rows, if these are fewer."""
RECALLS = (10, 100)
FREE = tuple(name for name, kind in CODERS.items() if not kind.needs_labels)
OTHERS = ("FAISS ITQ", "FAISS PQ", "FAISS RaBitQ", "first dimensions, signs")


class Cell(NamedTuple):
    """A cell of the table."""

    data: str
    bytes: int
    method: str
    seed: int

    @property
    def name(self) -> str:
        """Of the cell's file."""
        return f"{self.data}-{self.method.replace(' ', '-').replace(',', '')}-{self.bytes}bytes-seed{self.seed}"


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


def execute(cell: Cell, file: str) -> dict[str, Any]:
    """Fit one method and measure its recalls; they are empty where it has no code of this size."""
    from benchmarks.experiments.scored import expected_recall

    work = _work(file)
    started = time.perf_counter()
    scores = _coder_scores(cell, work) if cell.method in FREE else _others()[cell.method](work, cell)
    seconds = time.perf_counter() - started
    wanted = work.nearest(slice(None), max(RECALLS))
    recalls = [] if scores is None else [float(expected_recall(scores, wanted[:, :k]).mean()) for k in RECALLS]
    return {**cell._asdict(), "recalls": recalls, "seconds": seconds}


def _coder_scores(cell: Cell, work: Any) -> Any:
    from lbhash.codes import hamming_distances
    from lbhash.hasher import Hasher

    hasher = Hasher(8 * cell.bytes, cell.method, seed=cell.seed).fit_split(
        work.base_part.with_rows(work.base_part.rows, None), 0
    )
    return hamming_distances(hasher.encode_split(work.dataset.query), hasher.train_codes_)


def _others() -> dict[str, Callable[[Any, Cell], Any]]:
    from benchmarks.experiments import contenders as of

    def named(name: str, made: Callable[[Any, Cell], Any], work: Any, cell: Cell) -> Any:
        return next((one.scores(slice(None)) for one in made(work, cell) if one.name == name), None)

    made = {
        "FAISS ITQ": lambda work, cell: of.iterative_quantization(work, 8 * cell.bytes, cell.seed),
        "FAISS PQ": lambda work, cell: of.product_quantization(work, 8 * cell.bytes, cell.seed),
        "first dimensions, signs": lambda work, cell: of.few_dimensions(work, 8 * cell.bytes),
    }
    return {name: partial(named, name, one) for name, one in made.items()} | {"FAISS RaBitQ": _rabitq}


def _rabitq(work: Any, cell: Cell) -> Any:
    """FAISS's RaBitQ of as many principal components, turned at random, as fit beside its two numbers a row."""
    import faiss

    dimensions = 8 * (cell.bytes - 8)
    if not 0 < dimensions <= work.dim:
        return None
    index: Any = faiss.index_factory(work.dim, f"PCAR{dimensions},RaBitQ")
    index.train(work.train)
    index.add(work.base)
    assert index.sa_code_size() == cell.bytes
    distances, found = index.search(work.query, len(work.base))
    scores = np.empty_like(distances)
    np.put_along_axis(scores, found, distances, 1)
    return scores


def main() -> None:
    """Run what is missing, and write the part of the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, metavar="NAME=FILE", help="may be given often")
    parser.add_argument("--bytes", nargs="+", type=int, default=[4, 8, 16, 32])
    parser.add_argument("--methods", nargs="+", choices=[*FREE, *OTHERS], default=[*FREE, *OTHERS])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--out", type=Path, default=Path("docs/search.md"))
    parser.add_argument("--runs", type=Path, default=Path("runs/label-free"), help="folder of the cells' JSON files")
    parser.add_argument("--workers", type=int, default=1, help="cells at a time, one thread each")
    given = parser.parse_args()
    runs: dict[str, tuple[Cell, str]] = {}
    for one in given.data:
        name, _, file = one.partition("=")
        try:
            check_part(given.out, PART)
            rows = _work(file).base if name else None
        except (TypeError, ValueError) as error:
            parser.error(str(error))
        if rows is None:
            parser.error(f"data is {one!r}; it must be NAME=FILE")
        for method, size, seed in product(given.methods, given.bytes, given.seeds):
            cell = Cell(name, size, method, seed)
            runs[cell.name] = (cell, file)
    results, _ = run_missing(
        runs, execute, given.runs, given.workers, lambda result: ", ".join(f"{r:.3f}" for r in result["recalls"])
    )
    command = " ".join(f"--data {one.partition('=')[0]}=FILE" for one in given.data)
    seeds = " ".join(map(str, given.seeds))
    command = f"python -m benchmarks.experiments.label_free {command} --seeds {seeds}"
    replace_part(given.out, PART, page(list(results.values()), command))


def page(results: list[dict[str, Any]], command: str) -> str:
    """The tables in Markdown, one for each data set; the best of a column in bold, of codes of bits in italics too."""
    parts = [f"Made by `{command}`.\n"]
    for data in dict.fromkeys(result["data"] for result in results):
        cells: dict[tuple[str, int], list[dict[str, Any]]] = {}
        for result in results:
            if result["data"] == data and result["recalls"]:
                cells.setdefault((result["method"], result["bytes"]), []).append(result)
        sizes = sorted({size for _, size in cells})
        found = {key: [fmean(r["recalls"][at] for r in of) for at in range(len(RECALLS))] for key, of in cells.items()}
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
            seconds = [r["seconds"] for (name, _), of in cells.items() if name == method for r in of]
            rows.append([*row, f"{max(seconds):.0f}"])
        columns = ["method", *(f"{size} bytes" for size in sizes), "seconds"]
        parts.append(f"**{data}**\n\n{markdown_table(columns, rows, left=0)}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    main()
