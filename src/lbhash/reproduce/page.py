"""The page of all experiments: one HTML file that holds their tables and figures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markupsafe import Markup

from lbhash.reproduce.registry import Experiment
from lbhash.reproduce.results import Cell, Interval, Result
from lbhash.reproduce.results.write import cell_text, is_text_column
from lbhash.reproduce.runs import Settings, command_line
from lbhash.utils.html import png_url, render

LONG = 24
"""The page shows a table of more rows folded up."""


def page(found: Mapping[str, Result | str], known: Mapping[str, Experiment], settings: Settings, images: Path) -> str:
    """Return the page in HTML, with the figures from the folder ``images``.

    ``found`` has the results by the experiment's name, or in place of a result the reason why there is none.
    """
    sections = []
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
    heads: list[tuple[str, str]] = []
    rows: list[list[tuple[str, str]]] = [[] for _ in result.rows]
    for place, column in enumerate(result.columns):
        kind = "paper" if column in result.paper else "word" if is_text_column(result, place) else ""
        heads.append((column, kind))
        for cells, row in zip(rows, result.rows, strict=True):
            cells.append((_number(row[place], result.digits), kind))
        if ours := result.paper.get(column):
            heads.append(("ours − paper", "apart"))
            for cells, row in zip(rows, result.rows, strict=True):
                cells.append((difference(row[result.columns.index(ours)], row[place], result.digits), "apart"))
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
