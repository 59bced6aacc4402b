"""The page of all experiments: one HTML file with its tables and figures inside it."""

from __future__ import annotations

import base64
import html
import math
from collections.abc import Mapping
from pathlib import Path

from lbhash.reproduce.registry import Experiment
from lbhash.reproduce.results.interval import Interval
from lbhash.reproduce.results.result import Cell, Result
from lbhash.reproduce.results.write import alignments, shown
from lbhash.reproduce.runs.grid import seeds_text
from lbhash.reproduce.runs.settings import Settings, command_line
from lbhash.utils.version import __version__

LONG = 24
"""Rows beyond which a table is folded up."""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>lbhash: the paper, reproduced</title>
<style>
  :root {{ color-scheme: light dark; --line: #8886; --soft: #8882; --link: #0a58ca; }}
  @media (prefers-color-scheme: dark) {{ :root {{ --link: #8ab4f8; }} }}
  body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }}
  h1, h2, h3 {{ line-height: 1.2; }}
  h2 {{ margin-top: 3.5rem; padding-top: 1rem; border-top: 1px solid var(--line); }}
  h3 {{ margin-top: 2rem; }}
  a {{ color: var(--link); }}
  code {{ font-size: .88em; background: var(--soft); padding: .1em .35em; border-radius: .3em;
    overflow-wrap: anywhere; }}
  nav ul {{ list-style: none; padding: 0; }}
  nav li {{ padding: .2rem 0; }}
  .wide {{ overflow-x: auto; }}
  table {{ border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }}
  th, td {{ padding: .3rem .7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }}
  th.word, td.word {{ text-align: left; }}
  th {{ vertical-align: bottom; white-space: normal; }}
  p, li {{ max-width: 52rem; }}
  .paper, .apart {{ background: var(--soft); }}
  .apart {{ font-style: italic; }}
  summary {{ cursor: pointer; padding: .4rem 0; }}
  figure {{ margin: 1rem 0; overflow-x: auto; }}
  img {{ max-width: 100%; height: auto; background: #fff; border-radius: .4rem; }}
  @media (max-width: 44rem) {{ img {{ max-width: none; width: 44rem; }} }}
  .none {{ border-left: .25rem solid var(--line); padding-left: 1rem; }}
  small {{ opacity: .75; }}
</style>
</head>
<body>
<h1>A lower bound of hash codes' performance, reproduced</h1>
<p>Every table and figure of the paper (NeurIPS 2022) on {data}, {seeds}. Made by</p>
<p><code>{command}</code></p>
<p>Shaded columns are the paper's figures. Beside each stands, in italics, how far ours is above it (+) or below it (−):
our mean over the seeds minus the paper's. An interval ± is the half width of 95 % by Student's t over the seeds.</p>
<nav aria-label="Contents">
<ul>
{contents}
</ul>
</nav>
{sections}
<p><small>lbhash {version}</small></p>
</body>
</html>
"""


def page(found: Mapping[str, Result | str], known: Mapping[str, Experiment], settings: Settings, images: Path) -> str:
    """The page in HTML.

    Args:
        found: results by name, or the line that says why there is none.
        known: the experiments by name.
        settings: that the command was given.
        images: the folder with the results' files, of which the page takes the images.
    """
    contents = [f'<li><a href="#{name}">{name}</a>: {html.escape(known[name].summary)}</li>' for name in found]
    sections = [
        _section(name, result, command_line(name, known[name].suited(settings)), images)
        if isinstance(result, Result)
        else _none(name, result)
        for name, result in found.items()
    ]
    return PAGE.format(
        data=html.escape(", ".join(source.name for source in settings.all_sources())),
        seeds=seeds_text(settings),
        command=html.escape(command_line("all", settings)),
        contents="\n".join(contents),
        sections="\n".join(sections),
        version=__version__,
    )


def _section(name: str, result: Result, command: str, images: Path) -> str:
    parts = [f'<section id="{name}">', f"<h2>{html.escape(result.title)}</h2>"]
    parts.append(f"<p><code>{html.escape(command)}</code></p>")
    for part, table in result.parts(name).items():
        if table is not result:
            parts.append(f'<h3 id="{part}">{html.escape(table.title)}</h3>')
        parts += [_prose(table.text), table_of(table), _figure(table, images / f"{part}.png")]
    return "\n".join([*parts, "</section>"])


def _none(name: str, line: str) -> str:
    return f'<section id="{name}">\n<h2>{name}</h2>\n<p class="none">Not made: {html.escape(line)}.</p>\n</section>'


def table_of(result: Result) -> str:
    """The table in HTML; a column of the paper's is followed by what ours is above it, where one is to be compared."""
    places = {column: place for place, column in enumerate(result.columns)}
    words = {c for c, mark in zip(result.columns, alignments(result), strict=True) if mark == ":--"}
    heads = []
    for column in result.columns:
        kind = "paper" if column in result.paper else "word" if column in words else ""
        heads.append(_cell("th", column, kind))
        if result.paper.get(column):
            heads.append(_cell("th", "ours − paper", "apart"))
    rows = []
    for row in result.rows:
        cells = []
        for column, cell in zip(result.columns, row, strict=True):
            kind = "paper" if column in result.paper else "word" if column in words else ""
            cells.append(_cell("td", _number(cell, result.digits), kind))
            if ours := result.paper.get(column):
                cells.append(_cell("td", apart(row[places[ours]], cell, result.digits), "apart"))
        rows.append(f"<tr>{''.join(cells)}</tr>")
    table = (
        f'<div class="wide"><table>\n<thead><tr>{"".join(heads)}</tr></thead>\n<tbody>\n'
        + "\n".join(rows)
        + "\n</tbody>\n</table></div>"
    )
    if len(rows) <= LONG:
        return table
    return f"<details><summary>The table, {len(rows)} rows</summary>\n{table}\n</details>"


def apart(ours: Cell, paper: Cell, digits: int) -> str:
    """Ours minus the paper's with its sign; nothing where one of them is missing or infinite."""
    value = ours.mean if isinstance(ours, Interval) else ours
    if isinstance(value, str) or isinstance(paper, str) or value is None or paper is None:
        return ""
    assert not isinstance(paper, Interval)
    difference = float(value - paper)
    if not math.isfinite(difference):
        return ""
    text = _number(difference, digits)
    return text if text.startswith("−") else f"+{text}"


def _number(cell: Cell, digits: int) -> str:
    """A cell as it is shown, with a minus sign where it is a number."""
    text = shown(cell, digits)
    return text if isinstance(cell, str) else text.replace("-", "−")


def _cell(tag: str, text: str, kind: str) -> str:
    return f'<{tag} class="{kind}">{html.escape(text)}</{tag}>' if kind else f"<{tag}>{html.escape(text)}</{tag}>"


def _prose(text: str) -> str:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).render(text).strip()


def _figure(result: Result, file: Path) -> str:
    image = base64.b64encode(file.read_bytes()).decode()
    alt = html.escape(result.title, quote=True)
    return f'<figure><img alt="{alt}" src="data:image/png;base64,{image}"></figure>'
