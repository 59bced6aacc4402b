"""Results that are there already, so that an interrupted ``all`` does not make them again.

Trainings are kept as runs; this is for the experiments whose work is not in any run. A result is kept under what it was
asked for, the rows of its data and the library's own sources, so that another version makes it anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lbhash.files import write_json
from lbhash.reproduce.interval import Interval
from lbhash.reproduce.result import Cell, Result
from lbhash.reproduce.settings import Settings
from lbhash.reproduce.sources import Source

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def keep(name: str, settings: Settings, result: Result, files: Iterable[Path]) -> None:
    """Keep a result and the marks of its files, as they have been written, in the folder of the runs."""
    tables = {part: _as_json(table) for part, table in result.parts(name).items()}
    write_json(_file(name, settings), {"tables": tables, "files": {file.name: _mark(file) for file in files}})


def load(name: str, settings: Settings, out: Path) -> Result | None:
    """The result that was kept and whose files are in ``out`` as they were written; ``None`` where there is none."""
    file = _file(name, settings)
    if not file.is_file():
        return None
    kept = json.loads(file.read_text(encoding="utf-8"))
    if any(_mark(out / written) != mark for written, mark in kept["files"].items()):
        return None
    held = kept["tables"]
    tables = {part: _from_json(table, out / f"{part}.png") for part, table in held.items()}
    first = tables.pop(name)
    more = {part.removeprefix(f"{name}-"): Result(**table) for part, table in tables.items()}
    return Result(**first, more=more)


def _file(name: str, settings: Settings) -> Path:
    data = "" if settings.data is None else Source("data", settings.data).mark()
    asked = json.dumps([name, settings.seeds, settings.seed, data, _sources()])
    return settings.runs / f"{name}-{sha256(asked.encode()).hexdigest()[:16]}.json"


def _mark(file: Path) -> str | None:
    return sha256(file.read_bytes()).hexdigest() if file.is_file() else None


@cache
def _sources() -> str:
    """A fingerprint of the library's files."""
    digest = sha256()
    for file in sorted(Path(__file__).parents[1].rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _as_json(table: Result) -> dict[str, Any]:
    return {
        "title": table.title,
        "columns": list(table.columns),
        "rows": [[_cell_as_json(cell) for cell in row] for row in table.rows],
        "text": table.text,
        "digits": table.digits,
        "paper": dict(table.paper),
    }


def _from_json(held: dict[str, Any], picture: Path) -> dict[str, Any]:
    rows = [[_cell_from_json(cell) for cell in row] for row in held["rows"]]
    return {**held, "rows": rows, "draw": _drawn(picture)}


def _cell_as_json(cell: Cell) -> Any:
    """Floats as text, in which the infinite ones have a place too."""
    if isinstance(cell, Interval):
        half = None if cell.half is None else repr(cell.half)
        return {"mean": repr(cell.mean), "half": half, "count": cell.count, "infinite": cell.infinite}
    return {"float": repr(float(cell))} if isinstance(cell, float) else cell


def _cell_from_json(held: Any) -> Cell:
    if not isinstance(held, dict):
        return held
    if "float" in held:
        return float(held["float"])
    half = None if held["half"] is None else float(held["half"])
    return Interval(float(held["mean"]), half, held["count"], held["infinite"])


def _drawn(picture: Path) -> Callable[[], Figure]:
    """What draws a figure that shows a picture."""

    def draw() -> Figure:
        from matplotlib.figure import Figure
        from matplotlib.image import imread

        pixels = imread(picture)
        figure = Figure(figsize=(pixels.shape[1] / 150, pixels.shape[0] / 150))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.imshow(pixels)
        axes.set_axis_off()
        return figure

    return draw
