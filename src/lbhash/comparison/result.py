"""What a comparison found: its lines, what it recommends, and the table, pictures and page of both."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lbhash.trials.stored import EMBEDDINGS, Way
from lbhash.utils.files import replacing, write_text
from lbhash.utils.formatting import number
from lbhash.utils.html import png_url, render
from lbhash.utils.validation import check_choice

if TYPE_CHECKING:
    from matplotlib.axes import Axes

QUESTIONS = {
    "known": ("For the classes you have", "mAP"),
    "later": ("If classes come later", "mAP"),
    "nearest": ("For the nearest items", "recall@10"),
}
"""The questions, each with how a recommendation begins and the figure that answers it."""
MARGIN = 0.01
"""A way is as good as the best if its figure is at most this below; of those, the lightest is recommended."""


@dataclass(frozen=True)
class Line(Way):
    """What a way answers.

    Attributes:
        search: milliseconds a query, of all queries at once.
        chosen: the figure of each question, by the half of the queries that recommends.
        shown: the same by the other half.
    """

    search: float
    chosen: dict[str, float | None]
    shown: dict[str, float | None]

    def value(self, question: str) -> float:
        """The figure of a question that is shown."""
        return self.shown.get(question) or 0.0


@dataclass(frozen=True)
class Comparison:
    """What ``compare`` found; ``str`` is the recommendations, and a notebook shows the table.

    Attributes:
        lines: all ways.
        about: the data, the settings and the seed.

    >>> Comparison(lines=(), about={"seed": 0}).questions  # of no way
    []
    """

    lines: tuple[Line, ...]
    about: Mapping[str, Any]

    @property
    def questions(self) -> list[str]:
        """Those of ``QUESTIONS`` that these data answer."""
        return [name for name in QUESTIONS if self.answers(name)]

    @property
    def exact(self) -> Line:
        """The embeddings themselves."""
        return next(line for line in self.lines if line.name == EMBEDDINGS)

    def answers(self, question: str) -> list[Line]:
        """Return the ways that answer a question."""
        return [line for line in self.lines if line.shown.get(question) is not None]

    def pick(self, question: str) -> Line:
        """Return the lightest way whose figure is within ``MARGIN`` of the best, by the queries that choose.

        Only ways count that keep less in memory than the embeddings, if there is any.
        """
        others = [one for one in self.answers(question) if one.name != EMBEDDINGS]
        able = [one for one in others if one.memory < self.exact.memory] or others
        values = {one.title: one.chosen[question] or 0.0 for one in able}
        good = [one for one in able if values[one.title] >= max(values.values()) - MARGIN]
        return min(good, key=lambda one: (one.weight, -values[one.title]))

    def sentences(self) -> list[str]:
        """Return a recommendation for each question, with its figures by the other queries."""
        exact, said = self.exact, []
        for question in self.questions:
            begin, figure = QUESTIONS[question]
            line = self.pick(question)
            disk = f" and {line.disk:,} on disk" if line.disk else ""
            value, all_of_it = (number(one.shown[question], 3) for one in (line, exact))
            said.append(
                f"{begin} take {line.title} ({line.take}): {line.memory:,} byte{'s' * (line.memory > 1)} a row{disk}, "
                f"{figure} {value}; "
                f"the embeddings have {exact.memory:,} bytes and {all_of_it}."
            )
        return said

    def frontier(self) -> list[Line]:
        """Return the ways that no lighter one beats, by any question; the lightest first."""
        kept = {EMBEDDINGS}
        for question in self.questions:
            best = -1.0
            for line in sorted(self.answers(question), key=lambda one: (one.weight, -one.value(question))):
                if line.value(question) > best:
                    best = line.value(question)
                    kept.add(line.title)
        return sorted((line for line in self.lines if line.title in kept), key=lambda one: one.weight)

    def records(self) -> list[dict[str, Any]]:
        """Return the lines as plain dicts, the figures by the queries that are shown, the lightest first."""
        plain = ("name", "bits", "memory", "disk", "rerank", "labels")
        return [
            {name: getattr(line, name) for name in plain}
            | {question: line.shown.get(question) for question in self.questions}
            | {"fit_seconds": line.fit, "encode_seconds": line.encode, "search_ms": line.search, "take": line.take}
            for line in sorted(self.lines, key=lambda one: one.weight)
        ]

    def to_pandas(self) -> Any:
        """Return the lines as a table of pandas."""
        import pandas as pd  # type: ignore[import-untyped]

        return pd.DataFrame(self.records())

    def figure(self, *questions: str) -> Any:
        """Draw each question's figure against bytes a row in memory: the pick, FAISS's quantizers and the embeddings.

        All other ways are gray. Without ``questions``, all that the data answer are drawn. ``ValueError`` names one
        that they do not answer.
        """
        from lbhash.utils.plotting import new_figure

        for question in questions:
            check_choice(question, "questions", self.questions)
        questions = questions or tuple(self.questions)
        figure, panels = new_figure(max(5.0, 3.5 * len(questions)), 3.6, *[1.0] * len(questions))
        for axes, question in zip(panels, questions, strict=True):
            self._draw(axes, question)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
        return figure

    def _draw(self, axes: Axes, question: str) -> None:
        from lbhash.utils.plotting import palette

        exact, picked = self.exact, self.pick(question)
        pick_color, faiss_color = palette(2)
        drawn: dict[tuple[str, bool], list[tuple[int, float]]] = {}
        for line in self.answers(question):
            if line.name != EMBEDDINGS:
                drawn.setdefault((line.name, bool(line.rerank)), []).append((line.memory, line.value(question)))
        labels = {pick_color: "the recommended method", faiss_color: "FAISS, not re-ranked", "0.75": "all other ways"}
        own = picked.name, bool(picked.rerank)
        for (name, again), points in sorted(drawn.items(), key=lambda one: one[0] != own):  # the pick leads the legend
            color = pick_color if (name, again) == own else faiss_color if name.startswith("FAISS") else "0.75"
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
        axes.set_title(f"{QUESTIONS[question][0]}\ntake {picked.title}", fontsize=11)

    def save(self, folder: str | Path) -> None:
        """Write ``comparison.csv``, ``comparison.png`` and ``comparison.html`` into a folder."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        records, text = self.records(), io.StringIO()
        writer = csv.DictWriter(text, records[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(records)
        write_text(place / "comparison.csv", text.getvalue())
        with replacing(place / "comparison.png") as temporary:
            temporary.write_bytes(self._picture(*self.questions))
        picked = {self.pick(question).title for question in self.questions}
        tables = [("The best of each size", self.cells(self.frontier())), ("All of them", self.cells(self.lines))]
        values: dict[str, Any] = {"about": self.about, "sentences": self.sentences(), "picked": picked}
        values["pictures"] = [(QUESTIONS[question][0], png_url(self._picture(question))) for question in self.questions]
        page = render("lbhash.comparison", "comparison.html", **values, columns=self.columns(), tables=tables)
        write_text(place / "comparison.html", page)

    def _picture(self, *questions: str) -> bytes:
        """Return the figure of questions as PNG."""
        buffer = io.BytesIO()
        self.figure(*questions).savefig(buffer, format="png", dpi=140)
        return buffer.getvalue()

    def columns(self) -> list[str]:
        """Return the names of the columns of ``cells``."""
        heads = {"known": "mAP", "later": "later", "nearest": "recall"}
        return ["method", "bytes", "disk", *(heads[name] for name in self.questions), "fit s", "ms"]

    def cells(self, lines: Sequence[Line]) -> list[list[str]]:
        """Return lines as text, the lightest first."""
        return [
            [line.title, f"{line.memory:,}", f"{line.disk:,}" if line.disk else "–"]
            + [number(line.shown.get(name), 3) for name in self.questions]
            + [number(line.fit, 1), number(line.search, 2)]
            for line in sorted(lines, key=lambda one: one.weight)
        ]

    def _repr_html_(self) -> str:
        said = "".join(f"<li>{one}</li>" for one in self.sentences())
        return f"<ul>{said}</ul>{self.to_pandas().to_html(index=False)}"

    def __str__(self) -> str:
        return "\n".join(self.sentences())
