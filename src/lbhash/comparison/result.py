"""The result of a comparison: its lines, its recommendations, and their table, pictures and page."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from lbhash.comparison.recipes import recipe
from lbhash.trials.classifier import ANSWER
from lbhash.trials.intervals import bootstrap
from lbhash.trials.questions import Values
from lbhash.trials.stored import EMBEDDINGS, Way
from lbhash.utils.files import replacing, write_csv, write_text
from lbhash.utils.formatting import number
from lbhash.utils.html import png_url, render
from lbhash.utils.validation import check_choice

if TYPE_CHECKING:
    from matplotlib.axes import Axes

QUESTIONS = {
    "known": ("For the classes you have", "mAP", "mAP"),
    "later": ("If classes come later", "mAP", "later"),
    "mixed": ("If a fifth is of classes that came later", "mAP", "mixed"),
    "nearest": ("For the nearest items", "recall@10", "recall"),
}
"""The questions: how a recommendation begins, the figure that answers it, and the head of its column."""
MARGIN = 0.01
"""A way is as good as the best if its figure is at most this below, or if the queries cannot tell the two apart."""
DRAWS = 1_000
"""Number of draws of splits and queries for an interval."""
BEYOND = 10
"""Recall is estimated for at most this multiple of the stored rows."""
SAME = 1.2
"""Up to this multiple of the stored rows, ``count`` needs no estimate: it may include queries, which are not stored."""
_NAMED = 3  # equally good ways that a sentence names


@dataclass(frozen=True, eq=False)
class Line(Way):
    """The figures of a way, alone or after a second stage.

    Attributes:
        search: milliseconds per query, for 50 at once.
        chosen: the figures of each question for the queries that recommend, ``float64 [splits, queries]``; only one
            split if the way was far behind in it. "third" is "nearest" among a third of the rows.
        shown: the same for the other queries.
    """

    search: float
    chosen: Mapping[str, Values]
    shown: Mapping[str, Values]

    def value(self, question: str) -> float:
        """The mean figure of a question that is shown; NaN if the way does not answer it."""
        return float(self.shown[question].mean()) if question in self.shown else math.nan


class Verdict(NamedTuple):
    """The ways for a question: the ``pick``, the ``best`` by its mean, and equally good ones, lightest first."""

    pick: Line
    best: Line
    alike: list[Line]


@dataclass(frozen=True)
class Comparison:
    """The result of ``compare``; ``str`` gives the recommendations, and a notebook shows the table.

    Attributes:
        lines: all ways.
        about: the data, the settings and the seed.
        count: the expected number of rows.
        reading: the options by which the commands ``train`` and ``index build`` read the data.

    >>> Comparison(lines=(), about={"seed": 0}, count=1).questions  # of no way
    []
    """

    lines: tuple[Line, ...]
    about: Mapping[str, Any]
    count: int
    reading: Mapping[str, str] = field(default_factory=dict)

    @property
    def questions(self) -> list[str]:
        """The ``QUESTIONS`` that these data answer."""
        return [name for name in QUESTIONS if self.answers(name)]

    @property
    def exact(self) -> Line:
        """The embeddings themselves."""
        return next(line for line in self.lines if line.name == EMBEDDINGS)

    def answers(self, question: str) -> list[Line]:
        """Return the ways that answer a question."""
        return [line for line in self.lines if question in line.shown]

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdict on each question."""
        return {question: self._verdict(question) for question in self.questions}

    def _verdict(self, question: str) -> Verdict:
        """Return the lightest way that is as good as the best, by the queries that choose.

        A way is as good if its mean is at most ``MARGIN`` below the best, or if 0 is in the 95 % interval of the
        difference (a bootstrap over splits and queries). Among equally light ways, the highest mean wins. Only ways
        with less memory than the embeddings count, unless there is none.
        """
        others = [one for one in self.answers(question) if one.name != EMBEDDINGS]
        splits = max(len(one.chosen[question]) for one in others)
        others = [one for one in others if len(one.chosen[question]) == splits]
        able = [one for one in others if one.memory < self.exact.memory] or others
        values = np.stack([self._at_count(one.chosen, question) for one in able])
        means = values.mean(axis=(1, 2))
        best = int(means.argmax())
        lowest = np.quantile(bootstrap(values[best] - values, DRAWS), 0.025, axis=-1)
        good = [at for at in range(len(able)) if means[best] - means[at] <= MARGIN or lowest[at] <= 0]
        good.sort(key=lambda at: (able[at].weight, -means[at]))
        return Verdict(able[good[0]], able[best], [able[at] for at in good[1:]])

    def _at_count(self, figures: Mapping[str, Values], question: str) -> Values:
        """Return a question's figures; recall at ``count`` rows is estimated from its fall from a third to all rows."""
        change = figures["nearest"] - figures["third"] if question == "nearest" and self.growth > 1 else np.zeros(1)
        if change.mean() >= 0:
            return figures[question]
        tripled = math.log(self.about["rows"]["nearest"] / self.about["rows"]["third"])
        return figures["nearest"] + math.log(min(self.growth, BEYOND)) / tripled * change

    @property
    def growth(self) -> float:
        """``count`` as a multiple of the stored rows; 1 if it is at most ``SAME``."""
        times = self.count / self.about["rows"]["nearest"]
        return float(times) if times > SAME else 1.0

    def shown(self, line: Line, question: str) -> str:
        """Return a way's figure with half of its 95 % interval, by a bootstrap over splits and queries."""
        low, high = np.quantile(bootstrap(line.shown[question], DRAWS), [0.025, 0.975])
        return f"{line.value(question):.3f} ± {(high - low) / 2:.3f}"

    def sentences(self) -> list[str]:
        """Return a recommendation for each question, with figures from the other queries."""
        return [self._sentence(question) for question in self.questions]

    def _sentence(self, question: str) -> str:
        (begin, figure, _), (line, best, alike) = QUESTIONS[question], self.verdicts[question]
        said = f"{begin} take {line.title} ({self._read(line.take)}): "
        said += f"{sizes(line)} a row, {figure} {self.shown(line, question)}"
        said += f"; the embeddings have {self.exact.memory:,} bytes and {number(self.exact.value(question), 3)}."
        if best is not line and best.value(question) > line.value(question) + MARGIN:
            said += f" The highest is {best.title}, {sizes(best)}, {self.shown(best, question)}."
        near = [one for one in alike if one.weight <= 2 * line.weight and one.name != line.name]
        named = list({one.name: one for one in reversed(near)}.values())[::-1][:_NAMED]
        if named:
            said += f" As good: {', '.join(f'{one.title} ({sizes(one)})' for one in named)}."
        elif not alike:
            said += " No other way is as good."
        if line.name.startswith(ANSWER):
            said += " It is ranked by probabilities, not by Hamming distance, and knows no class that comes later."
        return said + (self._at_scale(line) if question == "nearest" else "")

    def _at_scale(self, line: Line) -> str:
        """Return a sentence on how the number of rows changes the recall of a way."""
        rows = self.about["rows"]
        if "third" not in line.shown:
            return ""
        all_of_it, third = line.value("nearest"), line.value("third")
        said = f" Among a third of the {rows['nearest']:,} rows it finds {number(third, 3)}"
        if self.growth > 1:
            told = min(self.count, BEYOND * rows["nearest"])
            expected = float(np.clip(self._at_count(line.shown, "nearest").mean(), 0, 1))
            said += f", so among {told:,} about {number(expected, 2)}" if all_of_it < third else ""
            if self.count > told:
                what = f"what {line.rerank} candidates find of" if line.rerank else "the recall among"
                said += f"; so few rows cannot tell {what} {self.count:,}"
        if line.rerank:
            said += f"; {line.rerank} candidates are {100 * line.rerank / rows['nearest']:.2g} % of the rows"
        return f"{said}."

    def memory(self) -> list[str]:
        """Return the memory of each recommended way for ``count`` rows, without ids and metadata."""
        ways = {one.title: one for one in (self.exact, *(verdict.pick for verdict in self.verdicts.values()))}
        return [
            f"{title}: {amount(one.memory * self.count)} in memory"
            + (f", {amount(one.disk * self.count)} on disk" if one.disk else "")
            for title, one in ways.items()
        ]

    def recipes(self) -> dict[str, str]:
        """Return the lines that build and search each recommended way, by its title."""
        return {one.pick.title: self._read(recipe(one.pick)) for one in self.verdicts.values()}

    def _read(self, lines: str) -> str:
        """Return lines whose commands read the data with the options that they need."""
        for command, options in self.reading.items():
            lines = lines.replace(f"lbhash {command} DATA", f"lbhash {command} DATA {options}".rstrip())
        return lines

    def frontier(self) -> list[Line]:
        """Return the ways that, for some question, no lighter way equals; the lightest first."""
        kept = {EMBEDDINGS}
        for question in self.questions:
            best = -1.0
            for line in sorted(self.answers(question), key=lambda one: (one.weight, -one.value(question))):
                if line.value(question) > best:
                    best = line.value(question)
                    kept.add(line.title)
        return sorted((line for line in self.lines if line.title in kept), key=lambda one: one.weight)

    def records(self) -> list[dict[str, Any]]:
        """Return the lines as plain dicts, lightest first, with figures from the shown queries.

        ``moved`` names the questions that were asked only in the first split, because the way was far behind in it.
        """
        plain = ("name", "bits", "memory", "disk", "vectors", "rerank", "labels")
        asked = [*self.questions, *(["third"] if "nearest" in self.questions else [])]
        splits = {name: len(self.exact.shown[name]) for name in asked}
        found = []
        for line in sorted(self.lines, key=lambda one: one.weight):
            record = {name: getattr(line, name) for name in plain}
            record |= {name: round(line.value(name), 4) if name in line.shown else None for name in asked}
            times = {"fit_seconds": line.fit, "encode_seconds": line.encode, "search_ms": line.search}
            moved = [name for name in asked if name in line.shown and len(line.shown[name]) < splits[name]]
            found.append(record | {"moved": " ".join(moved)} | times | {"take": self._read(line.take)})
        return found

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON values: what to take, the lines that build and search it, and all ways."""
        verdicts = {
            question: {"take": one.pick.title, "best": one.best.title, "alike": [other.title for other in one.alike]}
            for question, one in self.verdicts.items()
        }
        return {
            "about": dict(self.about),
            "count": self.count,
            "recommended": self.sentences(),
            "verdicts": verdicts,
            "memory": self.memory(),
            "recipes": self.recipes(),
            "lines": self.records(),
        }

    def to_pandas(self) -> Any:
        """Return the lines as a table of pandas."""
        import pandas as pd  # type: ignore[import-untyped]

        return pd.DataFrame(self.records())

    def figure(self, *questions: str) -> Any:
        """Draw each question's figure against bytes a row in memory: the pick, FAISS's OPQ and the embeddings.

        OPQ has the second stage of the pick. All other ways are gray. Without ``questions``, all questions that the
        data answer are drawn. ``ValueError`` names a question that they do not answer.
        """
        from lbhash.utils.plotting import new_figure

        for question in questions:
            check_choice(question, "questions", self.questions)
        questions = questions or tuple(self.questions)
        figure, panels = new_figure(max(5.0, 3.5 * len(questions)), 3.6, *[1.0] * len(questions))
        for axes, question in zip(panels, questions, strict=True):
            self._draw(axes, question)
        named = {label: one for axes in panels for one, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        columns = len(named) if len(questions) > 1 else 3
        figure.legend(named.values(), named, loc="outside lower center", ncols=columns, frameon=False)
        return figure

    def _draw(self, axes: Axes, question: str) -> None:
        from lbhash.utils.plotting import palette

        exact, picked = self.exact, self.verdicts[question].pick
        second = picked.vectors, picked.rerank
        pick_color, faiss_color = palette(2)
        drawn: dict[tuple[str, str, int], list[tuple[int, float]]] = {}
        for line in self.answers(question):
            if line.name != EMBEDDINGS:
                drawn.setdefault((line.name, line.vectors, line.rerank), []).append((line.memory, line.value(question)))
        labels = {pick_color: "the recommended way", faiss_color: "FAISS OPQ, alike", "0.75": "all other ways"}
        own = picked.name, *second
        for key, points in sorted(drawn.items(), key=lambda one: one[0] != own):  # the pick leads the legend
            color = pick_color if key == own else faiss_color if key == ("FAISS OPQ", *second) else "0.75"
            style: dict[str, Any] = {"marker": "o", "color": color, "zorder": 2 if color == "0.75" else 3}
            style |= {"markersize": 3 if color == "0.75" else 5, "linewidth": 0 if color == "0.75" else 1.8}
            axes.plot(*zip(*sorted(points), strict=True), **style, label=labels.pop(color, None))
        axes.axhline(exact.value(question), color="black", linestyle=":", label=f"{EMBEDDINGS}, {exact.memory:,} bytes")
        ring: dict[str, Any] = {"markersize": 13, "markerfacecolor": "none", "markeredgecolor": "black", "zorder": 4}
        axes.plot(picked.memory, picked.value(question), "o", **ring, label="what to take", linestyle="none")
        sizes = sorted({line.memory for line in self.lines if line.name != EMBEDDINGS})
        ticks = [2**power for power in range(0, len(bin(sizes[-1])) - 1, 2) if sizes[0] <= 2**power <= 2 * sizes[-1]]
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.set(xlabel="bytes a row in memory", ylabel=f"{QUESTIONS[question][1]}, higher is better")
        axes.set_title(f"{QUESTIONS[question][0]}\ntake {picked.title}", fontsize=10)

    def save(self, folder: str | Path) -> None:
        """Write ``comparison.csv``, ``comparison.png`` and ``comparison.html`` into a folder."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        records = self.records()
        write_csv(place / "comparison.csv", [records[0], *(record.values() for record in records)])
        with replacing(place / "comparison.png") as temporary:
            temporary.write_bytes(self._picture(*self.questions))
        picked = {one.pick.title for one in self.verdicts.values()}
        tables = [("The best of each size", self.cells(self.frontier())), ("All of them", self.cells(self.lines))]
        values: dict[str, Any] = {"about": self.about, "sentences": self.sentences(), "picked": picked}
        values |= {"memory": self.memory(), "count": self.count, "recipes": self.recipes()}
        values["pictures"] = [(QUESTIONS[question][0], png_url(self._picture(question))) for question in self.questions]
        page = render("lbhash.comparison", "comparison.html", **values, columns=self.columns(), tables=tables)
        write_text(place / "comparison.html", page)

    def _picture(self, *questions: str) -> bytes:
        """Return the figure of these questions as PNG."""
        buffer = io.BytesIO()
        self.figure(*questions).savefig(buffer, format="png", dpi=140)
        return buffer.getvalue()

    def columns(self) -> list[str]:
        """Return the names of the columns of ``cells``."""
        return ["way", "bytes", "disk", *(QUESTIONS[name][2] for name in self.questions), "fit s", "ms"]

    def cells(self, lines: Sequence[Line]) -> list[list[str]]:
        """Return lines as text, the lightest first."""
        return [
            [line.title, f"{line.memory:,}", f"{line.disk:,}" if line.disk else "–"]
            + [number(line.value(name), 3) for name in self.questions]
            + [number(line.fit, 1), number(line.search, 2)]
            for line in sorted(lines, key=lambda one: one.weight)
        ]

    def _repr_html_(self) -> str:
        said = "".join(f"<li>{one}</li>" for one in self.sentences())
        return f"<ul>{said}</ul>{self.to_pandas().to_html(index=False)}"

    def __str__(self) -> str:
        return "\n".join(self.sentences())


def sizes(line: Line) -> str:
    """Return the bytes of a row, in memory and on disk, as people read them."""
    return f"{line.memory:,} byte{'s' * (line.memory > 1)}" + (f" and {line.disk:,} on disk" if line.disk else "")


def amount(size: float) -> str:
    """Return bytes as people read them.

    >>> amount(40_000_000)
    '40 MB'
    """
    units = ["bytes", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.3g} {units[0]}"
