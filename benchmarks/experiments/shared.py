"""What the studies share: their options, trials of a method, and the part of a page of the docs that they write.

Trials that ``--out`` has are not run again.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from pandas.api.typing import SeriesGroupBy

from lbhash.data.holdout import hold_out
from lbhash.data.split import EmbeddingSplit
from lbhash.evaluation.held_out import leave_one_out_map
from lbhash.hasher import Hasher, fit_split, name_of
from lbhash.reproduce.runs.sources import Source
from lbhash.trials.intervals import Interval
from lbhash.trials.questions import Question, Values
from lbhash.trials.stored import Stored
from lbhash.trials.trial import Trial, run_trials
from lbhash.trials.ways import Store, codes, count_classes
from lbhash.utils.files import replacing, write_text
from lbhash.utils.paths import existing_file

sns.set_theme(style="whitegrid", palette="colorblind")


def options(
    doc: str | None, part: str, page: str | None = None, *, trials: bool = True, **defaults: Any
) -> argparse.ArgumentParser:
    """Return a parser with ``--page``, whose ``part`` a study writes, and with what has a default here.

    That is some of ``data``, which must be given if its default is None, ``bits``, ``seeds`` and ``epochs``. If the
    study runs ``trials``, it also takes where these are kept, and how many run at a time.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=partial(_page_with, part), default=page, help="page that a part is written of")
    if "data" in defaults:
        kind = {"action": "append", "required": defaults["data"] is None, "default": defaults["data"]}
        parser.add_argument("--data", type=Source.of, metavar="NAME=FILE", **kind)
    if trials:
        parser.add_argument("--out", type=Path, default=Path("runs") / part, help="folder of the trials")
        parser.add_argument("--workers", type=int, default=1, help="trials at a time, one thread each")
    if "bits" in defaults:
        parser.add_argument("--bits", nargs="+", type=int, default=list(defaults["bits"]))
    for name, said in (("seeds", "how many, from 0"), ("epochs", None)):
        if name in defaults:
            parser.add_argument(f"--{name}", type=int, default=defaults[name], help=said)
    return parser


def fitted(train: EmbeddingSplit, *, hasher: Hasher, by: str = "itself") -> Iterator[Store]:
    """Yield the codes of a hasher that is fitted now; its seconds are those of the processor.

    Queries are their codes or, if ``by`` is "outputs", their real outputs.
    """
    began = time.process_time()
    fit_split(hasher, train, count_classes(train))
    yield codes(name_of(hasher), hasher.bits, "", hasher.model_, time.process_time() - began, by=(by,))


def asked(source: Source, hasher: Hasher, top_k: int | None = None) -> Trial:
    """Return the trial that fits to the training rows, and asks the queries for rows of their classes."""
    data = source.dataset()
    question = Question("queries", data.base.labeled(), data.query.labeled(), ("map",), top_k)
    return Trial(partial(fitted, hasher=hasher), source.training()[0], (question,))


class Others(Question):
    """Held-out rows, which are base and queries: each is asked for the others, and the figure is the mean."""

    def answers(self, stored: Stored) -> dict[str, Values]:
        """Return the mAP, ``float64 [1]``."""
        assert stored.codes is not None
        held, _, bits = stored.codes
        return {"map": np.array([leave_one_out_map(held, np.asarray(self.base.labels), bits, self.top_k)])}


def held_out(source: Source, top_k: int | None = None) -> tuple[EmbeddingSplit, Others]:
    """Return four fifths of the training rows, and a question about the other fifth."""
    train, validation = hold_out(source.training()[0], 0.2, 0)
    return train, Others("held-out rows", validation, validation, ("map",), top_k)


def run(trials: Iterable[tuple[dict[str, Any], Trial]], given: argparse.Namespace) -> pd.DataFrame:
    """Run trials, each of which stands beside the columns that tell it apart.

    Returns:
        A row for each result: these columns, the name of the ``way``, ``seconds`` to fit it, the values of ``queries``,
        by figure, and their means over the queries that have one.
    """
    columns = {"-".join(re.sub(r"\W+", "_", str(value)) for value in of.values()): (of, one) for of, one in trials}
    found = run_trials({name: one for name, (_, one) in columns.items()}, given.out, given.workers, progress=True)
    lines = [
        {**columns[name][0], "way": one.name, "by": one.by, "seconds": one.fit, "queries": one.figures}
        | {figure: pd.Series(values).mean() for figure, values in one.figures.items()}
        for name, results in found.items()
        for one in results
    ]
    return pd.DataFrame(lines)


def half_widths(by: SeriesGroupBy) -> pd.Series:
    """Return half of the interval of each group's mean; NaN where it has one value."""
    return pd.to_numeric(by.agg(lambda values: Interval.of(values).half))


def markdown(table: pd.DataFrame, left: int = 0) -> str:
    """Return the lines of a table of strings in Markdown; the column ``left`` holds words, the others numbers."""
    marks = [":--" if at == left else "--:" for at in range(table.shape[1])]
    lines: list[Sequence[Any]] = [table.columns, *table.itertuples(index=False)]
    head, *rest = [f"| {' | '.join(map(str, cells))} |" for cells in lines]
    return "\n".join([head, f"|{'|'.join(marks)}|", *rest])


def show(text: str, part: str, page: Path | None) -> None:
    """Print a text, and write it into the part of a page, if there is one."""
    print(text)
    if page is not None:
        _page_with(part, page)
        whole, (begin, end) = page.read_text(encoding="utf-8"), _comments(part)
        write_text(page, f"{whole[: whole.index(begin)]}{begin}\n{text}\n{whole[whole.index(end) :]}")


def read_csv(file: Path | None, columns: Sequence[str]) -> pd.DataFrame:
    """Return the lines of a CSV file as text; none, with these columns, where there is no file."""
    if file is None or not file.exists():
        return pd.DataFrame(columns=columns, dtype=str)
    return pd.read_csv(file, dtype=str, keep_default_na=False)


def missing(wanted: pd.DataFrame, lines: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """Return the wanted lines whose key no line has."""
    beside = wanted.merge(lines[key], how="left", indicator=True)
    return beside[beside["_merge"] == "left_only"].drop(columns="_merge")


def write_csv(table: pd.DataFrame, file: Path) -> None:
    """Write a table as CSV."""
    with replacing(file) as temporary:
        table.to_csv(temporary, index=False, lineterminator="\n")


def save(figure: Any, file: Path) -> None:
    """Write a picture."""
    with replacing(file) as temporary:
        figure.savefig(temporary, format="png", dpi=110)


def _page_with(part: str, file: str | Path) -> Path:
    """Return the page; raise ``ArgumentTypeError`` where it is missing or has not the part's comments once."""
    try:
        page = existing_file(file, "page")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    begin, end = _comments(part)
    text = page.read_text(encoding="utf-8")
    if text.count(begin) != 1 or text.count(end) != 1:
        raise argparse.ArgumentTypeError(f"page is {str(file)!r}; it must hold {begin} and {end} once")
    return page


def _comments(part: str) -> tuple[str, str]:
    return f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
