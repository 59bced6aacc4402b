"""What a user would pick instead: mAP and recall against bytes a row. Writes a part of ``docs/search.md``.

    python -m benchmarks.experiments.alternatives --data clinc=FILE --data cifar10=FILE

Every method is fitted to the train rows of half of the classes, and asked about both halves. The page has the best of
each size and pictures, and ``docs/search.csv`` all lines.

A data set is NAME=FILE, or NAME@R=FILE where its mAP looks at the first R of a ranking; FILE may be "digits". Each run
leaves a JSON file under ``--runs``; an interrupted table goes on with the runs that are missing.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from benchmarks.experiments.data import Data
from benchmarks.experiments.page import check_part, markdown_table, replace_part

from lbhash.data import Dataset, EmbeddingSplit, hold_out
from lbhash.data.protocols import trained_classes
from lbhash.utils.files import replacing, write_text
from lbhash.utils.parallel import run_missing

if TYPE_CHECKING:
    from benchmarks.experiments.contenders import Contender, Work

PAIRS = 1 << 22
"""Of a query and a base row, at a time."""
RECALLS = (10, 100)

KEPT_BEST = 1
"""Of each size, the lines that the page has of the best by each question; the others are in the CSV file."""

QUESTIONS = ("seen", "unseen", "recall@100")

PART = "alternatives"
"""Of the page, between two comments."""


class Run(NamedTuple):
    """The contenders of one number of bits, or with ``None`` those that have a size of their own."""

    data: Data
    bits: int | None
    seed: int
    epochs: int
    queries: int | None = None

    @property
    def name(self) -> str:
        """The name of the run's file."""
        if self.bits is None:
            return f"{self.data}-{self.queries or 'all'}queries-fixed-seed{self.seed}"
        asked = f"{self.queries or 'all'}queries"
        return f"{self.data}-{asked}-{self.bits}bits-{self.epochs}epochs-seed{self.seed}"


class Line(NamedTuple):
    """A contender's line: means over the seeds."""

    name: str
    bits: int | None
    bytes: int
    supervised: bool
    seen: float
    unseen: float
    recalls: tuple[float, ...]

    def value(self, question: str) -> float:
        """The figure that answers one of ``QUESTIONS``."""
        return {"seen": self.seen, "unseen": self.unseen}.get(question, self.recalls[-1])


@cache
def _dataset(file: str) -> Any:
    from lbhash.data import load_dataset

    return load_dataset(file)


def halved(dataset: Dataset[EmbeddingSplit], seed: int, queries: int | None) -> Dataset[EmbeddingSplit]:
    """Return the data set with the train rows of half of the classes, which are the first by number.

    Of several labels a row, all classes stay. About so many ``queries`` are asked, of every class the same share.
    """
    asked = dataset.query
    if queries is not None and queries < len(asked):
        _, asked = hold_out(asked, queries / len(asked), seed, name="queries", purpose="the table")
    parts = {"train": dataset.train, "base": dataset.base, "query": asked}
    if not dataset.multi_label:
        known = trained_classes(np.asarray(dataset.train.labels), seed)
        order = np.concatenate([known, np.setdiff1d(np.arange(dataset.classes), known)])
        number = np.argsort(order)
        parts = {name: part.with_rows(part.rows, number[part.labels]) for name, part in parts.items()}
        parts["train"] = parts["train"].where(parts["train"].labels < len(known))
    return Dataset(dataset.name, dataset.protocol, **parts)


def execute(run: Run) -> dict[str, Any]:
    """Fit and measure the contenders of a run."""
    from benchmarks.experiments import contenders as of

    work = of.Work(halved(_dataset(run.data.file), run.seed, run.queries), run.seed)
    if run.bits is None:
        every: Iterable[Iterator[Contender]] = (
            of.exact(work),
            of.one_bit_a_dimension(work),
            of.classifier(work),
            of.rabitq(work),
        )
    else:
        every = (
            of.lbhash_codes(work, run.bits, run.seed, run.epochs),
            of.linear_coders(work, run.bits, run.seed),
            of.discriminants(work, run.bits, run.seed),
            of.iterative_quantization(work, run.bits, run.seed),
            of.product_quantization(work, run.bits, run.seed),
            of.random_hyperplanes(work, run.bits, run.seed),
            of.few_dimensions(work, run.bits),
            of.additive_quantization(work, run.bits, run.seed),
            of.rabitq(work, run.bits),
        )
    wanted = _nearest(work)
    lines = [measure(contender, work, run.data.at, wanted) for kind in every for contender in kind]
    sizes = {"train": len(work.train), "base": len(work.base), "queries": len(work.query), "dim": work.dim}
    return {"sizes": sizes | {"classes": work.classes}, "contenders": lines}


def measure(
    contender: Contender, work: Work, at: int | None, wanted: npt.NDArray[np.int64] | None = None
) -> dict[str, Any]:
    """Size, mAP and recalls of one contender.

    Args:
        contender: fitted.
        work: what it was fitted on.
        at: R of the mAP; ``None`` for the whole base.
        wanted: each query's nearest base rows by cosine, nearest first (``Work.nearest``).
    """
    from lbhash.evaluation.metrics import average_precision
    from lbhash.evaluation.neighbors import expected_recall
    from lbhash.evaluation.ranking import ranking_of

    wanted = _nearest(work) if wanted is None else wanted
    averages: dict[bool, list[npt.NDArray[np.float64]]] = {True: [], False: []}
    recalls: dict[int, list[npt.NDArray[np.float64]]] = {k: [] for k in _ranks(work)}
    for some in _blocks(work):
        scores = contender.scores(some)
        for known, found in averages.items():
            rows, columns = work.of_classes(some, seen=known)
            if len(rows):
                kept = scores[np.ix_(rows, columns)], work.relevant(some)[np.ix_(rows, columns)]
                most = None if at is None else min(at, len(columns))
                found.append(average_precision(ranking_of(*kept), most))
        for k, found in recalls.items():
            found.append(expected_recall(scores, wanted[some, :k]))
    return {
        "name": contender.name,
        "supervised": contender.supervised,
        "bytes": contender.bytes,
        **{name: _mean(averages[known]) for name, known in (("seen", True), ("unseen", False))},
        "recalls": {str(k): float(np.concatenate(found).mean()) for k, found in recalls.items()},
    }


def _mean(values: list[npt.NDArray[np.float64]]) -> float | None:
    return float(np.nanmean(np.concatenate(values))) if values else None


def _ranks(work: Work) -> list[int]:
    return [k for k in RECALLS if k <= len(work.base)]


def _blocks(work: Work) -> Iterator[slice]:
    step = max(1, PAIRS // len(work.base))
    return (slice(start, start + step) for start in range(0, len(work.query), step))


def _nearest(work: Work) -> npt.NDArray[np.int64]:
    k = min(max(RECALLS), len(work.base))
    return np.concatenate([work.nearest(some, k) for some in _blocks(work)])


def main() -> None:
    """Run what is missing, and write the page and the image."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, metavar="NAME[@R]=FILE", help="may be given often")
    parser.add_argument("--bits", default="8,16,32,64,128,256", help="lengths of the codes")
    parser.add_argument("--seeds", type=int, default=1, help="how many draws of the classes")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--queries", type=int, help="ask a sample of so many")
    parser.add_argument("--out", type=Path, default=Path("docs/search.md"))
    parser.add_argument("--csv", type=Path, default=Path("docs/search.csv"))
    parser.add_argument(
        "--image", type=Path, default=Path("docs/search.png"), help="of two data sets; NAME-more.png has the others"
    )
    parser.add_argument("--runs", type=Path, default=Path("runs/alternatives"), help="folder of the runs' JSON files")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time, one thread each")
    given = parser.parse_args()
    try:
        if given.seeds < 1:
            raise ValueError(f"seeds is {given.seeds}; it must be at least 1")
        bits = parse_bits(given.bits)
        sets = [Data.of(text) for text in given.data]
        if len({data.name for data in sets}) < len(sets):
            raise ValueError("data has two sets of one name; give each a name of its own")
        check_part(given.out, PART)
    except (TypeError, ValueError) as error:
        parser.error(str(error))
    lengths = [*bits, None]
    every = product(sets, lengths, range(given.seeds))
    runs = [Run(data, length, seed, given.epochs, given.queries) for data, length, seed in every]
    results, _ = run_missing(
        {run.name: (run,) for run in runs},
        execute,
        given.runs,
        given.workers,
        lambda result: f"mAP {result['contenders'][0]['seen']:.4f}",
    )
    table = {run: results[run.name] for run in runs}
    images = []
    for name, some in (("", sets[:2]), ("-more", sets[2:])):
        if some:
            images.append(given.image.with_stem(given.image.stem + name))
            draw({run: result for run, result in table.items() if run.data in some}, images[-1])
    write_text(given.csv, listed(table))
    replace_part(given.out, PART, page(table, [image.name for image in images]))


def parse_bits(text: str) -> list[int]:
    """Lengths of codes as they are typed, ``16,32``."""
    from lbhash.codes import check_bits

    try:
        bits = [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"bits is {text!r}; it must be integers with commas between them") from None
    return [check_bits(length) for length in bits]


# ----------------------------------------------------------------------------------------------------------- the page


def lines_of(results: Mapping[Run, dict[str, Any]], data: Data) -> list[Line]:
    """A line a contender and number of bits, by bytes and then from the highest mAP of classes seen down."""
    found: dict[tuple[str, int | None], list[dict[str, Any]]] = {}
    for run, result in results.items():
        for line in result["contenders"] if run.data == data else ():
            found.setdefault((line["name"], run.bits), []).append(line)
    lines = []
    for (name, bits), of_seeds in found.items():
        seen, unseen = (
            float(np.mean([np.nan if line[key] is None else line[key] for line in of_seeds]))
            for key in ("seen", "unseen")
        )
        first = of_seeds[0]
        recalls = tuple(float(np.mean([line["recalls"][k] for line in of_seeds])) for k in first["recalls"])
        lines.append(Line(name, bits, first["bytes"], first["supervised"], seen, unseen, recalls))
    return sorted(lines, key=lambda line: (line.bytes, -line.seen))


def best_lines(lines: Sequence[Line]) -> list[Line]:
    """The best of each size by each question, and CSQ_D's codes, in the order of the lines.

    The second stage, whose size is nearly that of the embeddings at any length, is shown at 64 bits alone.
    """
    lines = [line for line in lines if line.bits == 64 or not line.name.endswith("by embeddings")]
    kept = [line for line in lines if line.name in ("CSQ_D", "CSQ_D, joined", "CSQ_D, unseen 0.5")]
    for size in sorted({line.bytes for line in lines}):
        own = [line for line in lines if line.bytes == size]
        for question in QUESTIONS:
            ranked = sorted(
                (line for line in own if line.value(question) == line.value(question)),
                key=lambda line: -line.value(question),
            )
            kept += ranked[:KEPT_BEST]
    return [line for line in lines if line in kept]


def page(results: Mapping[Run, dict[str, Any]], images: Sequence[str]) -> str:
    """The part of the page in Markdown."""
    sets = list(dict.fromkeys(run.data for run in results))
    first = next(iter(results))
    bits = sorted({run.bits for run in results if run.bits is not None})
    asked = " ".join(f"--data {_title(data)}={data.file if data.file == 'digits' else 'FILE'}" for data in sets)
    command = f"python -m benchmarks.experiments.alternatives {asked} --bits {','.join(map(str, bits))}"
    command += f" --seeds {1 + max(run.seed for run in results)} --epochs {first.epochs}"
    command += "" if first.queries is None else f" --queries {first.queries}"
    parts = [f"Made by `{command}`.\n", *(f"![mAP and recall against bytes a row]({image})\n" for image in images)]
    for data in sets:
        sizes = next(result["sizes"] for run, result in results.items() if run.data == data)
        said = (
            f"{sizes['train']:,} train rows of {sizes['classes']} classes, {sizes['base']:,} base rows, "
            f"{sizes['queries']:,} queries, {sizes['dim']:,} numbers an embedding"
        )
        said += "." if data.at is None else f"; mAP@{data.at:,}."
        parts.append(f"### {data.name}\n\n{said}\n\n{_table(best_lines(lines_of(results, data)))}\n")
    return "\n".join(parts)


def listed(results: Mapping[Run, dict[str, Any]]) -> str:
    """All lines of all data sets as CSV."""
    rows = ["data,bytes,method,bits,labels,seen mAP,unseen mAP,recall@10,recall@100"]
    for data in dict.fromkeys(run.data for run in results):
        for line in lines_of(results, data):
            values = _figures(line)
            numbers = ["" if np.isnan(value) else f"{value:.4f}" for value in values]
            cells = [_title(data), str(line.bytes), f'"{line.name}"', str(line.bits or ""), _labels(line), *numbers]
            rows.append(",".join(cells))
    return "\n".join(rows) + "\n"


def _title(data: Data) -> str:
    return data.name if data.at is None else f"{data.name}@{data.at}"


def _labels(line: Line) -> str:
    return "yes" if line.supervised else "no"


def _table(lines: Sequence[Line]) -> str:
    """Return the lines as a table, the highest figure of each number of bytes in bold."""
    ranks = RECALLS[: len(lines[0].recalls)]
    heads = ["bytes", "method", "labels", "seen mAP", "unseen mAP", *(f"recall@{k}" for k in ranks)]
    rows = []
    for line in lines:
        figures = _figures(line)
        own = zip(*(_figures(other) for other in lines if other.bytes == line.bytes), strict=True)
        best = [max((value for value in column if not np.isnan(value)), default=None) for column in own]
        cells = ["–" if np.isnan(value) else f"{value:.3f}" for value in figures]
        cells = [f"**{text}**" if value == top else text for text, value, top in zip(cells, figures, best, strict=True)]
        rows.append([f"{line.bytes:,}", line.name, _labels(line), *cells])
    return markdown_table(heads, rows, left=1)


def _figures(line: Line) -> list[float]:
    return [line.seen, line.unseen, *line.recalls]


# -------------------------------------------------------------------------------------------------------- the image

DRAWN = {
    "CSQ_D": "o-",
    "CSQ_D, asymmetric": "o:",
    "CSQ_D, joined": "s-",
    "CSQ_D, unseen 0.5": "D-",
    "CSQ_D, unseen 0.5, asymmetric": "D:",
    "logistic onto centers": "^-",
    "CCA-ITQ": "v-",
    "WCCN-ITQ": "P-",
    "ITQ": "o--",
    "sne": "s--",
    "FAISS OPQ + PQ": "^--",
    "FAISS residual quantizer": "v--",
    "logistic regression, class by query's probability": "X",
    "1 bit a dimension": "D",
    "float exact, cosine": "*",
}
"""Marker and line of the methods in the image; of the others the tables tell. Hollow ones do not know the labels."""


def draw(results: Mapping[Run, dict[str, Any]], file: Path) -> None:
    """A row of panels a data set, a panel a question: the figure against bytes a row."""
    from lbhash.utils.plotting import new_panels, palette

    sets = list(dict.fromkeys(run.data for run in results))
    figure, panels = new_panels(len(sets) * len(QUESTIONS), 5.2, 4.4)
    colors = palette(len(DRAWN))
    for axes, (data, question) in zip(panels, product(sets, QUESTIONS), strict=True):
        lines = lines_of(results, data)
        if all(np.isnan(line.value(question)) for line in lines):  # of several labels a row, no class is unseen
            axes.set_axis_off()
            continue
        for color, (name, style) in zip(colors, DRAWN.items(), strict=True):
            found = [line for line in lines if line.name == name]
            if found:
                face = color if found[0].supervised else "white"
                values = [line.value(question) for line in found]
                axes.plot([line.bytes for line in found], values, style, color=color, markerfacecolor=face, label=name)
        head = "mAP" if data.at is None else f"mAP@{data.at:,}"
        words = {"seen": f"{head}, classes seen", "unseen": f"{head}, classes never seen"}.get(question, question)
        axes.set_xscale("log", base=2)
        powers = 2 ** np.arange(int(np.log2(max(line.bytes for line in lines))) + 2)
        axes.set_xticks(powers[::2], [f"{power:,}" for power in powers[::2]])
        axes.set(title=data.name, xlabel="bytes a row", ylabel=words, ylim=(0, 1.02))
    named: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    figure.legend(named.values(), named, loc="outside lower center", ncols=4, frameon=False, fontsize=10)
    with replacing(file) as temporary:
        figure.savefig(temporary, format="png", dpi=110)


if __name__ == "__main__":
    main()
