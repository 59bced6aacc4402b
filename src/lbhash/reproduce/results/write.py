"""Write results: a table as text, CSV, Markdown and JSON, a figure as PNG."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd  # type: ignore[import-untyped]

from lbhash.reproduce.results.experiment_result import Cell, Result
from lbhash.trials.intervals import Interval
from lbhash.utils.files import replacing, write_text


def write_result(name: str, result: Result, folder: str | Path, command: str) -> None:
    """Write ``NAME.md``, which names the ``command``, and a ``.csv`` and a ``.png`` file of each table."""
    out = Path(folder)
    for file, one in result.tables(name).items():
        write_text(out / f"{file}.csv", as_csv(one.table))
        assert one.figure is not None
        with replacing(out / f"{file}.png") as temporary:
            one.figure.savefig(temporary, format="png", dpi=150)
    write_text(out / f"{name}.md", as_markdown(name, result, command))


def as_markdown(name: str, result: Result, command: str) -> str:
    """Return a page with the tables, what was done, and the figures."""
    sections = []
    for file, one in result.tables(name).items():
        words = one.table.map(lambda cell: isinstance(cell, str)).any()
        marks = [":--" if flush_left else "--:" for flush_left in words]
        lines = [f"| {' | '.join(one.table)} |", f"|{'|'.join(marks)}|"]
        lines += [f"| {' | '.join(row)} |" for row in shown(one)]
        head = [f"# {one.title}", f"Made by `{command}`."] if one is result else [f"## {one.title}"]
        figure = f"![{one.title}]({file}.png)"
        sections.append("\n\n".join([*head, *filter(None, [one.text]), "\n".join(lines), figure]))
    return "\n\n".join(sections) + "\n"


def as_csv(table: pd.DataFrame) -> str:
    """Return a table with all digits; an interval takes three columns: mean, half width, how many are infinite."""
    columns: dict[str, list[Any]] = {}
    for name, cells in table.items():
        columns[name] = [cell.mean if isinstance(cell, Interval) else cell for cell in cells]
        if any(isinstance(cell, Interval) for cell in cells):
            columns[f"{name} ± 95 %"] = [getattr(cell, "half", None) for cell in cells]
            columns[f"{name} infinite"] = [getattr(cell, "infinite", None) for cell in cells]
    return pd.DataFrame(columns, dtype=object).to_csv(index=False, lineterminator="\n")


def as_json(name: str, result: Result) -> dict[str, Any]:
    """Return the tables as JSON values; an infinite number becomes null."""
    tables = {
        file: {
            "title": one.title,
            "rows": [{name: _json_cell(cell) for name, cell in row.items()} for row in one.table.to_dict("records")],
        }
        for file, one in result.tables(name).items()
    }
    return {"name": name, "tables": tables}


def _json_cell(cell: Cell) -> Any:
    if isinstance(cell, Interval):
        return {"mean": _json_cell(cell.mean), "half": cell.half, "count": cell.count, "infinite": cell.infinite}
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def as_text(result: Result) -> str:
    """Return the tables in full as text for a terminal, so that no number is cut off."""
    tables = [
        f"{one.title}\n{pd.DataFrame(shown(one), columns=one.table.columns).to_string(index=False)}\n"
        for one in result.tables("").values()
    ]
    return "\n".join(tables)


def shown(result: Result) -> list[list[str]]:
    """Return the rows as people read them."""
    return [[cell_text(cell, result.digits) for cell in row] for row in result.table.to_numpy(object).tolist()]


def cell_text(cell: Cell, digits: int = 4) -> str:
    """Return a cell as people read it, with ``digits`` digits after the point."""
    if cell is None:
        return ""
    if isinstance(cell, Interval):
        return cell.shown(digits)
    if isinstance(cell, float):
        return f"{cell:.{digits}f}" if math.isfinite(cell) else "∞" if cell > 0 else "–"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)
