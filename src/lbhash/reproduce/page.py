"""All experiments one after the other, and one HTML file of their tables and figures: ``lbhash reproduce all``."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markupsafe import Markup

from lbhash.reproduce.registry import experiments
from lbhash.reproduce.results import Cell, Interval, Result
from lbhash.reproduce.results.write import cell_text, is_text_column
from lbhash.reproduce.runs import Settings, UnsuitableData, command_line
from lbhash.reproduce.runs.runner import complete
from lbhash.utils.files import check_folder, write_text
from lbhash.utils.html import png_url, render

PAGE = "report.html"
LONG = 24
"""The page shows a table of more rows folded up."""


def run_all(settings: Settings, out: str | Path) -> dict[str, Result | str]:
    """Run every experiment with the settings that it can use, and write each one's files and the page of all.

    The runs of all experiments are completed first, each once. An interrupted call goes on with what is missing.

    Returns:
        The results by name; if the data do not suit an experiment, the line that says what it needs instead.
    """
    check_folder(out, "out")
    check_folder(settings.runs, "runs")
    known = experiments()
    for source in settings.all_sources():
        source.dataset()  # an error in the data comes first
    complete([config for experiment in known.values() for config in experiment.configs(settings)], settings)
    found: dict[str, Result | str] = {}
    for name, experiment in known.items():
        print(f"{name}: {experiment.summary}", file=sys.stderr, flush=True)
        try:
            found[name] = experiment.run_and_write(experiment.suited(settings), out)
        except UnsuitableData as error:
            found[name] = str(error)
    write_text(Path(out) / PAGE, page(found, settings, Path(out)))
    return found


def page(found: Mapping[str, Result | str], settings: Settings, images: Path) -> str:
    """Return the page in HTML, with the figures from the folder ``images``.

    ``found`` has the results by the experiment's name, or in place of a result the reason why there is none.
    """
    known, sections = experiments(), []
    for name, result in found.items():
        section: dict[str, Any] = {"name": name, "summary": known[name].summary, "tables": []}
        if isinstance(result, Result):
            section |= {"title": result.title, "command": command_line(name, known[name].suited(settings))}
            section["tables"] = [_table(*table, images) for table in result.tables(name).items()]
        else:
            section["reason"] = result
        sections.append(section)
    return render(
        "lbhash.reproduce",
        "report.html",
        data=", ".join(source.name for source in settings.all_sources()),
        seeds=settings.seeds_text(),
        command=command_line("all", settings),
        sections=sections,
    )


def _table(name: str, result: Result, images: Path) -> dict[str, Any]:
    text = MarkdownIt("commonmark", {"html": False}).render(result.text).strip()
    image = png_url((images / f"{name}.png").read_bytes())
    return {"name": name, "title": result.title, "text": Markup(text), "html": table_html(result), "image": image}


def table_html(result: Result) -> Markup:
    """Return the table in HTML; a column "ours − paper" follows each column of the paper that has one of ours."""
    columns: list[tuple[tuple[str, str], ...]] = []
    for place, column in enumerate(result.columns):
        kind = "paper" if column in result.paper else "word" if is_text_column(result, place) else ""
        columns.append(((column, kind), *((_number(row[place], result.digits), kind) for row in result.rows)))
        if ours := result.paper.get(column):
            own = result.columns.index(ours)
            apart = (difference(row[own], row[place], result.digits) for row in result.rows)
            columns.append((("ours − paper", "apart"), *((text, "apart") for text in apart)))
    heads, *rows = zip(*columns, strict=True)
    return Markup(render("lbhash.reproduce", "table.html", heads=heads, rows=rows, folded=len(rows) > LONG).strip())


def difference(ours: Cell, paper: Cell, digits: int) -> str:
    """Return ours minus the paper's with its sign; nothing if one of them is missing, text or infinite."""
    value = ours.mean if isinstance(ours, Interval) else ours
    if not isinstance(value, (int, float)) or not isinstance(paper, (int, float)) or not math.isfinite(value - paper):
        return ""
    text = _number(float(value - paper), digits)
    return text if text.startswith("−") else f"+{text}"


def _number(cell: Cell, digits: int) -> str:
    """Return a cell's text, with a minus sign if it is a number."""
    text = cell_text(cell, digits)
    return text if isinstance(cell, str) else text.replace("-", "−")
