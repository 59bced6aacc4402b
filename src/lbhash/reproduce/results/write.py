"""Results as they are written: a table in the terminal, as CSV and as Markdown, a figure as PNG and as SVG."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lbhash.reproduce.results.interval import Interval
from lbhash.reproduce.results.result import Cell, Result
from lbhash.utils.files import replacing, write_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write_result(name: str, result: Result, folder: str | Path, command: str | None = None) -> list[Path]:
    """Write ``NAME.md``, and ``.csv``, ``.png`` and ``.svg`` of each of its tables; ``command`` is what made them.

    Returns:
        The files.
    """
    out = Path(folder)
    files = [out / f"{name}.md"]
    for part, table in result.parts(name).items():
        write_text(out / f"{part}.csv", as_csv(table))
        figure = table.draw()
        for kind in ("png", "svg"):
            with replacing(out / f"{part}.{kind}") as temporary:
                save_figure(figure, temporary, kind)
        files += [out / f"{part}.{kind}" for kind in ("csv", "png", "svg")]
    write_text(out / f"{name}.md", as_markdown(name, result, command))
    return files


def save_figure(figure: Figure, file: Any, kind: str) -> None:
    """Save a figure so that the same one gives the same bytes: without the date, and with names that are not random."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "lbhash"}):
        figure.savefig(file, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)


def as_markdown(name: str, result: Result, command: str | None = None) -> str:
    """A page with the tables, what was done, and the figures beside it."""
    parts = []
    made_by = command or f"lbhash reproduce {name}"
    for part, table in result.parts(name).items():
        lines = [f"| {' | '.join(table.columns)} |", "|" + "".join(f"{mark}|" for mark in alignments(table))]
        lines += [f"| {' | '.join(shown(cell, table.digits) for cell in row)} |" for row in table.rows]
        head = "#" if table is result else "##"
        made = f"Made by `{made_by}`." if table is result else ""
        paragraphs = [f"{head} {table.title}", *filter(None, [made, table.text])]
        parts.append("\n\n".join([*paragraphs, "\n".join(lines), f"![{table.title}]({part}.png)"]))
    return "\n\n".join(parts) + "\n"


def as_csv(result: Result) -> str:
    """The table with all digits; an interval takes three columns: mean, half width, how many are infinite."""
    wide = [any(isinstance(row[i], Interval) for row in result.rows) for i in range(len(result.columns))]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    heads: list[str] = []
    for column, is_wide in zip(result.columns, wide, strict=True):
        heads += [column, f"{column} ± 95 %", f"{column} infinite"] if is_wide else [column]
    writer.writerow(heads)
    for row in result.rows:
        cells: list[Any] = []
        for cell, is_wide in zip(row, wide, strict=True):
            if isinstance(cell, Interval):
                cells += [cell.mean, cell.half, cell.infinite]
            else:
                cells += [cell, None, None] if is_wide else [cell]
        writer.writerow(cells)
    return text.getvalue()


def as_json(name: str, result: Result) -> dict[str, Any]:
    """The tables as JSON can hold them; what is infinite becomes null."""
    tables = {}
    for part, table in result.parts(name).items():
        rows = [dict(zip(table.columns, map(_plain, row), strict=True)) for row in table.rows]
        tables[part] = {"title": table.title, "rows": rows}
    return {"name": name, "tables": tables}


def print_result(result: Result) -> None:
    """Print the tables for people, as wide as they are: a figure that is cut off is none."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Column, Table

    for part in (result, *result.more.values()):
        heads = [
            Column(column, justify="left" if mark == ":--" else "right")
            for column, mark in zip(part.columns, alignments(part), strict=True)
        ]
        table = Table(*heads, title=part.title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for row in part.rows:
            table.add_row(*(_escaped(shown(cell, part.digits)) for cell in row))
        console = Console()
        needed = Measurement.get(console, console.options.update(width=1000), table).maximum
        Console(width=max(console.width, needed)).print(table)


def shown(cell: Cell, digits: int = 4) -> str:
    """A cell as people read it, with so many digits after the point."""
    if cell is None:
        return ""
    if isinstance(cell, Interval):
        return cell.shown(digits)
    if isinstance(cell, float):
        return f"{cell:.{digits}f}" if math.isfinite(cell) else "∞" if cell > 0 else "–"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def alignments(result: Result) -> list[str]:
    """How each column of the Markdown table is aligned: words to the left, numbers to the right."""
    words = [any(isinstance(row[i], str) for row in result.rows) for i in range(len(result.columns))]
    return [":--" if word else "--:" for word in words]


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _plain(cell: Cell) -> Any:
    if isinstance(cell, Interval):
        return {"mean": _plain(cell.mean), "half": cell.half, "count": cell.count, "infinite": cell.infinite}
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell
