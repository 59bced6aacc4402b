"""Results as they are written: a table in the terminal, as CSV and as Markdown, a figure as PNG and as SVG."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

from matplotlib import rc_context

from lbhash.reproduce.results.result import Cell, Result
from lbhash.trials.intervals import Interval
from lbhash.utils.files import replacing, write_text


def write_result(name: str, result: Result, folder: str | Path, command: str) -> None:
    """Write ``NAME.md``, which names the ``command``, and ``.csv``, ``.png`` and ``.svg`` files of each table."""
    out = Path(folder)
    for file, table in result.tables(name).items():
        write_text(out / f"{file}.csv", as_csv(table))
        figure = table.figure()
        for kind in ("png", "svg"):
            with replacing(out / f"{file}.{kind}") as temporary, rc_context({"svg.hashsalt": "lbhash"}):
                date = {"Date": None} if kind == "svg" else None  # the same figure gives the same bytes
                figure.savefig(temporary, format=kind, dpi=150, metadata=date)
    write_text(out / f"{name}.md", as_markdown(name, result, command))


def as_markdown(name: str, result: Result, command: str) -> str:
    """Return a page with the tables, what was done, and the figures."""
    sections = []
    for file, table in result.tables(name).items():
        marks = [":--" if is_text_column(table, place) else "--:" for place in range(len(table.columns))]
        lines = [f"| {' | '.join(table.columns)} |", f"|{'|'.join(marks)}|"]
        lines += [f"| {' | '.join(cell_text(cell, table.digits) for cell in row)} |" for row in table.rows]
        head = [f"# {table.title}", f"Made by `{command}`."] if table is result else [f"## {table.title}"]
        figure = f"![{table.title}]({file}.png)"
        sections.append("\n\n".join([*head, *filter(None, [table.text]), "\n".join(lines), figure]))
    return "\n\n".join(sections) + "\n"


def as_csv(result: Result) -> str:
    """Return the table with all digits; an interval takes three columns: mean, half width, how many are infinite."""
    heads: list[str] = []
    rows: list[list[Any]] = [[] for _ in result.rows]
    for place, column in enumerate(result.columns):
        cells = [row[place] for row in result.rows]
        wide = any(isinstance(cell, Interval) for cell in cells)
        heads += [column, f"{column} ± 95 %", f"{column} infinite"] if wide else [column]
        for row, cell in zip(rows, cells, strict=True):
            if isinstance(cell, Interval):
                row += [cell.mean, cell.half, cell.infinite]
            else:
                row += [cell, None, None] if wide else [cell]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([heads, *rows])
    return text.getvalue()


def as_json(name: str, result: Result) -> dict[str, Any]:
    """Return the tables as JSON can hold them; an infinite number becomes null."""
    tables = {}
    for file, table in result.tables(name).items():
        rows = [dict(zip(table.columns, map(_json_cell, row), strict=True)) for row in table.rows]
        tables[file] = {"title": table.title, "rows": rows}
    return {"name": name, "tables": tables}


def _json_cell(cell: Cell) -> Any:
    if isinstance(cell, Interval):
        return {"mean": _json_cell(cell.mean), "half": cell.half, "count": cell.count, "infinite": cell.infinite}
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def print_result(result: Result) -> None:
    """Print the tables in full, however wide the terminal is, for a number that is cut off is of no use."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    for one in result.tables("").values():
        table = Table(title=one.title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for place, column in enumerate(one.columns):
            table.add_column(column, justify="left" if is_text_column(one, place) else "right")
        for row in one.rows:
            table.add_row(*(Text(cell_text(cell, one.digits)) for cell in row))
        console = Console()
        needed = Measurement.get(console, console.options.update(width=1000), table).maximum
        Console(width=max(console.width, needed)).print(table)


def cell_text(cell: Cell, digits: int = 4) -> str:
    """Return a cell as people read it, with so many digits after the point."""
    if cell is None:
        return ""
    if isinstance(cell, Interval):
        return cell.shown(digits)
    if isinstance(cell, float):
        return f"{cell:.{digits}f}" if math.isfinite(cell) else "∞" if cell > 0 else "–"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def is_text_column(result: Result, place: int) -> bool:
    """Whether a column holds text, which is aligned to the left; numbers are aligned to the right."""
    return any(isinstance(row[place], str) for row in result.rows)
