"""What a user would pick instead: mAP and recall against bytes a row. Writes ``docs/search.md`` and its image.

    python -m benchmarks.experiments.alternatives --data cifar10=FILE --data tiny-imagenet@1000=FILE

A data set is NAME=FILE, or NAME@R=FILE where its mAP looks at the first R of a ranking; FILE may be "digits". Each run
leaves a JSON file under ``--runs``; an interrupted table goes on with the runs that are missing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lbhash.centers.targets import centers_fingerprint
from lbhash.utils.files import existing_file, replacing, write_text
from lbhash.utils.parallel import run_missing

if TYPE_CHECKING:
    from benchmarks.experiments.contenders import Contender, Work
    from matplotlib.axes import Axes

PAIRS = 1 << 22
"""Of a query and a base row, at a time."""
RECALLS = (10, 100)
TIMED_QUERIES, TIMED_K, TIMED_ROUNDS = 100, 100, 3

INTRO = """# What to pick: mAP against bytes a row

The same embeddings, stored in many ways: as codes of this library (CSQ_D, class centers of the kind "best"), with and
without a second stage; as what FAISS makes of them without labels; as what a linear model makes of them with labels;
and as they are. Everything is fitted on the train rows alone, and every query is compared with every base row.

Made by

    {command}

- **mAP** is over the first R of the ranking where R is given, else over the whole base, and relevant is what shares a
  label with the query. Rows of equal scores count as in a random order, in expectation.
- **recall@k** is another question: the share of the k base rows whose embeddings have the highest cosine with the
  query's that are among the first k. A method that learns classes reorders these on purpose. Ties as above.
- **bytes** are those of one stored row, without ids; the embeddings count in the number type of the file.
- **labels** says whether the method was fitted to the train rows' labels. Those with "no" were not told what is looked
  for, and that they have a lower mAP is no fault of theirs.
- **time** is that of finding the {k} nearest base rows of {queries} queries, beside that of the exact search by cosine
  over float32 (`faiss.knn`) in the same process: 0.10 is a tenth of its time. One thread, the best of {rounds}, without
  the time to encode the query. A dash stands for a score that is computed here for all rows and is no search of its
  own.
- "top 100 by" is the second stage: the 100 nearest codes, ranked anew by −⟨ℓ, b⟩ (asymmetric, which stores nothing
  else), by the cosine of stored outputs ℓ (float16), or of stored embeddings. What comes after them stays as it was.
  The mAP looks at all R places, so that an order of the first 100 shows in it only as far as they matter there.
- Methods without labels see embeddings of unit length. LSH, ITQ and PCA are centered; PQ has one byte a part; OPQ + PQ
  makes 4 numbers a part first. "1 bit a dimension" is the sign of the centered embedding; "first dimensions" keeps the
  first h of these bits.
- LDA's C − 1 numbers (Ledoit-Wolf shrinkage) are turned at random into h for its signs, and the first h / 16 kept as
  float16. The logistic regression's C is chosen on a fifth of the train rows. "class" is the class that it predicts, as
  a byte (two beyond 256 classes): rows of the query's predicted class come first, all tied. "by query's probability"
  ranks the rows' classes by what the query has for them. They are for rows of one label each only, and all they know is
  the classes: of a class that training has not seen they have nothing to say.
- A method is missing where it cannot be: more bits than dimensions, parts that do not divide them, few train rows.
"""


class Data(NamedTuple):
    """A data set of the page."""

    name: str
    file: str
    at: int | None  # R; None for the whole base


class Run(NamedTuple):
    """The contenders of one number of bits, or with ``None`` those that have a size of their own."""

    data: Data
    bits: int | None
    seed: int
    epochs: int

    def name(self, classes: int) -> str:
        """Of the run's file."""
        name = self.data.name if self.data.at is None else f"{self.data.name}@{self.data.at}"
        if self.bits is None:
            return f"{name}-fixed"
        mark = centers_fingerprint(classes, self.bits, "best", self.seed)
        return f"{name}-{self.bits}bits-{self.epochs}epochs-seed{self.seed}-{mark}"


class Line(NamedTuple):
    """A contender's line: means over the seeds, and standard deviations of mAP."""

    name: str
    bits: int | None
    bytes: int
    supervised: bool
    map: float
    deviation: float
    recalls: tuple[float, ...]
    time: float | None


@cache
def _dataset(file: str) -> Any:
    from lbhash.data import load_dataset

    return load_dataset(file)


def execute(run: Run) -> dict[str, Any]:
    """Fit and measure the contenders of a run."""
    from benchmarks.experiments import contenders as of

    work = of.Work(_dataset(run.data.file), run.seed)
    if run.bits is None:
        every: Iterable[Iterator[Contender]] = (of.exact(work), of.one_bit_a_dimension(work), of.classifier(work))
    else:
        every = (
            of.lbhash_codes(work, run.bits, run.seed, run.epochs),
            of.discriminants(work, run.bits, run.seed),
            of.iterative_quantization(work, run.bits, run.seed),
            of.product_quantization(work, run.bits, run.seed),
            of.random_hyperplanes(work, run.bits, run.seed),
            of.few_dimensions(work, run.bits),
        )
    wanted = _nearest(work)
    lines = [measure(contender, work, run.data.at, wanted) for kind in every for contender in kind]
    sizes = {"train": len(work.train), "base": len(work.base), "queries": len(work.query), "dim": work.dim}
    return {"sizes": sizes | {"classes": work.dataset.classes}, "contenders": lines}


def measure(
    contender: Contender, work: Work, at: int | None, wanted: npt.NDArray[np.int64] | None = None
) -> dict[str, Any]:
    """Size, mAP, recalls and time of one contender.

    Args:
        contender: fitted.
        work: what it was fitted on.
        at: R of the mAP; ``None`` for the whole base.
        wanted: each query's nearest base rows by cosine, nearest first (``Work.nearest``).
    """
    from benchmarks.experiments.scored import expected_recall, ranking_of

    from lbhash.evaluation.metrics import average_precision

    wanted = _nearest(work) if wanted is None else wanted
    at = None if at is None else min(at, len(work.base))
    averages: list[npt.NDArray[np.float64]] = []
    recalls: dict[int, list[npt.NDArray[np.float64]]] = {k: [] for k in _ranks(work)}
    for some in _blocks(work):
        scores = contender.scores(some)
        averages.append(average_precision(ranking_of(scores, work.relevant(some)), at))
        for k, found in recalls.items():
            found.append(expected_recall(scores, wanted[some, :k]))
    return {
        "name": contender.name,
        "supervised": contender.supervised,
        "bytes": contender.bytes,
        "map": float(np.nanmean(np.concatenate(averages))),
        "recalls": {str(k): float(np.concatenate(found).mean()) for k, found in recalls.items()},
        "time": _time(contender, work),
    }


def _ranks(work: Work) -> list[int]:
    return [k for k in RECALLS if k <= len(work.base)]


def _blocks(work: Work) -> Iterator[slice]:
    step = max(1, PAIRS // len(work.base))
    return (slice(start, start + step) for start in range(0, len(work.query), step))


def _nearest(work: Work) -> npt.NDArray[np.int64]:
    k = min(max(RECALLS), len(work.base))
    return np.concatenate([work.nearest(some, k) for some in _blocks(work)])


def _time(contender: Contender, work: Work) -> float | None:
    """Of a search, as a multiple of the exact one's; the two take turns, and the best of each counts."""
    if contender.search is None:
        return None
    some, k = slice(0, TIMED_QUERIES), min(TIMED_K, len(work.base))
    own, exact = [], []
    for _ in range(TIMED_ROUNDS):
        started = time.perf_counter()
        contender.search(some, k)
        between = time.perf_counter()
        work.nearest(some, k)
        own.append(between - started)
        exact.append(time.perf_counter() - between)
    return min(own) / min(exact)


def main() -> None:
    """Run what is missing, and write the page and the image."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, metavar="NAME[@R]=FILE", help="may be given often")
    parser.add_argument("--bits", default="16,32,64,128", help="lengths of the codes")
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("docs/search.md"))
    parser.add_argument("--image", type=Path, default=Path("docs/search.png"))
    parser.add_argument("--runs", type=Path, default=Path("runs/alternatives"), help="folder of the runs' JSON files")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time, one thread each")
    given = parser.parse_args()
    try:
        if given.seeds < 1:
            raise ValueError(f"seeds is {given.seeds}; it must be at least 1")
        bits = parse_bits(given.bits)
        sets = [parse_data(text) for text in given.data]
        if len({data.name for data in sets}) < len(sets):
            raise ValueError("data has two sets of one name; give each a name of its own")
        classes = {data: _dataset(data.file).classes for data in sets}
    except (TypeError, ValueError) as error:
        parser.error(str(error))
    runs = [Run(data, length, seed, given.epochs) for data in sets for length in bits for seed in range(given.seeds)]
    runs += [Run(data, None, 0, given.epochs) for data in sets]
    names = {run: run.name(classes[run.data]) for run in runs}
    results, _ = run_missing(
        {name: (run,) for run, name in names.items()},
        execute,
        given.runs,
        given.workers,
        lambda result: f"mAP {result['contenders'][0]['map']:.4f}",
    )
    table = {run: results[name] for run, name in names.items()}
    draw(table, given.image)
    write_text(given.out, page(table, given.image.name))


def parse_data(text: str) -> Data:
    """A data set as it is typed, ``NAME=FILE`` or ``NAME@R=FILE``."""
    name, _, file = text.partition("=")
    name, several, rank = name.partition("@")
    if not name or not file or "/" in name:
        raise ValueError(f"data is {text!r}; it must be NAME=FILE or NAME@R=FILE")
    if several and not (rank.isdecimal() and int(rank) > 0):
        raise ValueError(f"data is {text!r}; its R must be an integer of at least 1")
    if file != "digits":
        existing_file(file, "data")
    return Data(name, file, int(rank) if several else None)


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
    """A line a contender and number of bits, by bytes and then from the highest mAP down."""
    found: dict[tuple[str, int | None], list[dict[str, Any]]] = {}
    for run, result in results.items():
        for line in result["contenders"] if run.data == data else ():
            found.setdefault((line["name"], run.bits), []).append(line)
    lines = []
    for (name, bits), of_seeds in found.items():
        maps = np.array([line["map"] for line in of_seeds])
        times = [line["time"] for line in of_seeds if line["time"] is not None]
        first = of_seeds[0]
        recalls = tuple(float(np.mean([line["recalls"][k] for line in of_seeds])) for k in first["recalls"])
        deviation = float(maps.std(ddof=1)) if len(maps) > 1 else 0.0
        middle = float(np.median(times)) if times else None
        lines.append(
            Line(name, bits, first["bytes"], first["supervised"], float(maps.mean()), deviation, recalls, middle)
        )
    return sorted(lines, key=lambda line: (line.bytes, -line.map))


def page(results: Mapping[Run, dict[str, Any]], image: str) -> str:
    """The page in Markdown."""
    sets = list(dict.fromkeys(run.data for run in results))
    seeds, epochs = 1 + max(run.seed for run in results), next(iter(results)).epochs
    bits = sorted({run.bits for run in results if run.bits is not None})
    asked = " ".join(f"--data {_title(data)}={data.file if data.file == 'digits' else 'FILE'}" for data in sets)
    lengths = ",".join(map(str, bits))
    command = (
        f"python -m benchmarks.experiments.alternatives {asked} --bits {lengths} --seeds {seeds} --epochs {epochs}"
    )
    parts = [INTRO.format(command=command, k=TIMED_K, queries=TIMED_QUERIES, rounds=TIMED_ROUNDS)]
    parts.append(f"![mAP against bytes a row]({image})\n")
    for data in sets:
        lines = lines_of(results, data)
        sizes = next(result["sizes"] for run, result in results.items() if run.data == data)
        said = (
            f"{sizes['train']:,} train rows, {sizes['base']:,} base rows, {sizes['queries']:,} queries, "
            f"{sizes['dim']:,} numbers an embedding, {sizes['classes']} classes."
        )
        heads = f"{'mAP' if data.at is None else f'mAP@{data.at:,}'}"
        parts.append(f"## {data.name}\n\n{said}\n\n{losses(lines)}\n\n{_table(lines, heads)}\n")
    return "\n".join(parts)


def _title(data: Data) -> str:
    return data.name if data.at is None else f"{data.name}@{data.at}"


def _table(lines: Sequence[Line], head: str) -> str:
    """With the highest mAP of each number of bytes in bold."""
    ranks = RECALLS[: len(lines[0].recalls)]
    heads = ["bytes", "method", "bits", "labels", head, *(f"recall@{k}" for k in ranks), "time"]
    rows = [f"| {' | '.join(heads)} |", "|--:|:--|--:|:--|" + "--:|" * (len(heads) - 4)]
    best = {line.bytes: max(other.map for other in lines if other.bytes == line.bytes) for line in lines}
    for line in lines:
        value = f"{line.map:.4f}" + (f" ± {line.deviation:.4f}" if line.deviation else "")
        cells = [
            f"{line.bytes:,}",
            line.name,
            "" if line.bits is None else str(line.bits),
            "yes" if line.supervised else "no",
            f"**{value}**" if line.map == best[line.bytes] else value,
            *(f"{recall:.3f}" for recall in line.recalls),
            "–" if line.time is None else f"{line.time:.3f}",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def losses(lines: Sequence[Line]) -> str:
    """In words, for each number of bits: what has a higher mAP or recall than CSQ_D's codes and takes no more bytes."""
    said = []
    for own in (line for line in lines if line.name == "CSQ_D"):
        rivals = [line for line in lines if line.bytes <= own.bytes and not line.name.startswith("CSQ_D")]
        better = _best_of_each(line for line in rivals if line.map > own.map)
        what = f"- {own.bits} bits, {_bytes(own)}: mAP {own.map:.4f} by Hamming distance. "
        if better:
            listed = "; ".join(f"{_named(line)}, {_bytes(line)}: {line.map:.4f}" for line in better)
            what += f"More, in no more bytes, has {listed}."
        elif rivals:
            second = max(rivals, key=lambda line: line.map)
            what += f"Nothing of as few bytes has more; next is {_named(second)} ({_bytes(second)}: {second.map:.4f})."
        if rivals and own.recalls:
            near = max(rivals, key=lambda line: line.recalls[-1])
            k = RECALLS[len(own.recalls) - 1]
            what += f" Its recall@{k} is {own.recalls[-1]:.3f}; the best of the others is {_named(near)}"
            what += f" with {near.recalls[-1]:.3f}."
        said.append(what)
    whole = next((line for line in lines if line.name == "float exact, cosine"), None)
    if whole is not None:
        said.append(f"- The embeddings themselves, {_bytes(whole)}, by cosine: mAP {whole.map:.4f}, without labels.")
    return "\n".join(said)


def _best_of_each(lines: Iterable[Line]) -> list[Line]:
    """Of every method the line of highest mAP, from the highest down."""
    best: dict[str, Line] = {}
    for line in sorted(lines, key=lambda line: -line.map):
        best.setdefault(line.name, line)
    return list(best.values())


def _named(line: Line) -> str:
    return line.name if line.bits is None else f"{line.name} at {line.bits} bits"


def _bytes(line: Line) -> str:
    return f"{line.bytes:,} byte{'' if line.bytes == 1 else 's'}"


# -------------------------------------------------------------------------------------------------------- the image

DRAWN = {
    "CSQ_D": ("o", "-"),
    "CSQ_D, top 1,000 by asymmetric": ("s", "-."),
    "CSQ_D, top 1,000 by ℓ": ("D", "-"),
    "CSQ_D, top 1,000 by embeddings": ("X", ":"),
    "LDA, signs": ("^", "-"),
    "logistic regression, class": ("P", ""),
    "logistic regression, class by query's probability": ("v", ""),
    "logistic regression, probabilities float16": ("<", ""),
    "FAISS ITQ": ("o", "--"),
    "LSH": ("s", "--"),
    "FAISS OPQ + PQ": ("^", "--"),
    "PCA, signs": ("v", "--"),
    "1 bit a dimension": ("D", ""),
    "float exact, cosine": ("*", ""),
}
"""Marker and line of the methods in the image; of the others the table tells. Hollow ones do not know the labels."""


def draw(results: Mapping[Run, dict[str, Any]], file: Path) -> None:
    """mAP against bytes a row, a panel a data set."""
    from lbhash.utils.plotting import new_panels

    sets = list(dict.fromkeys(run.data for run in results))
    figure, panels = new_panels(len(sets), 8.5 if len(sets) == 1 else 6.2, 6.5)
    for axes, data in zip(panels, sets, strict=True):
        _draw_panel(axes, lines_of(results, data))
        axes.set_title(data.name)
        axes.set_ylabel("mAP" if data.at is None else f"mAP@{data.at:,}")
    named: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
    listed = [name for name in (f"{name} ({_who(name)})" for name in DRAWN) if name in named]
    columns = min(1 + len(sets), 3)
    figure.legend(
        [named[name] for name in listed], listed, loc="outside lower center", ncols=columns, frameon=False, fontsize=9
    )
    with replacing(file) as temporary:
        figure.savefig(temporary, format="png", dpi=130)


def _draw_panel(axes: Axes, lines: Sequence[Line]) -> None:
    from lbhash.utils.plotting import palette

    colors = palette(4)
    for name, (marker, style) in DRAWN.items():
        found = [line for line in lines if line.name == name]
        if not found:
            continue
        color = colors[_group(name)]
        axes.errorbar(
            [line.bytes for line in found],
            [line.map for line in found],
            [line.deviation for line in found],
            color=color,
            marker=marker,
            linestyle=style or "none",
            markersize=11 if marker == "*" else 7,
            markerfacecolor=color if found[0].supervised else "white",
            markeredgecolor=color,
            capsize=2,
            linewidth=1.6,
            label=f"{name} ({_who(name)})",
        )
    axes.set_xscale("log", base=2)
    powers = 2 ** np.arange(int(np.log2(max(line.bytes for line in lines))) + 2)
    axes.set_xticks(powers, [f"{power:,}" for power in powers])
    axes.set(xlabel="bytes a row", ylim=(0, 1.02))


def _group(name: str) -> int:
    """Of CSQ_D, linear models, what FAISS and others make without labels, and the embeddings as they are."""
    return 0 if name.startswith("CSQ_D") else 1 if name.startswith(("LDA", "log")) else 3 if "exact" in name else 2


def _who(name: str) -> str:
    return "labels" if _group(name) < 2 else "no labels"


if __name__ == "__main__":
    main()
