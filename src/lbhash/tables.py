"""What the commands print for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table

from lbhash.evaluation import Report

RESULT_COLUMNS = (
    "method",
    "mAP",
    "over ties",
    "D_inter",
    "D_intra",
    "ratio",
    "k-NN",
    "seconds",
)
"""The columns of a table of results. "over ties" is mAP in the worst and in the best order of tied codes."""


def result_row(metrics: Mapping[str, Any]) -> list[str]:
    """The cells of ``RESULT_COLUMNS`` for what ``lbhash train`` leaves in ``metrics.json``."""
    found = metrics["bound"]
    return [
        metrics["method"],
        f"{metrics['map']:.4f}",
        f"{metrics['map_worst']:.4f}–{metrics['map_best']:.4f}",
        number(found["inter"]),
        number(found["intra"]),
        number(found["ratio"], 3),
        number(metrics["knn_accuracy"], 4),
        f"{metrics['train_seconds']:.1f}",
    ]


def number(value: float | None, digits: int = 0) -> str:
    """A number with so many digits after the point; a dash where there is none."""
    return "–" if value is None else f"{value:.{digits}f}"


def print_metrics(rows: Iterable[Mapping[str, Any]], title: str) -> None:
    """Print one line of results a run."""
    table = Table(
        *(_column(name) for name in RESULT_COLUMNS),
        title=title,
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for row in rows:
        table.add_row(*result_row(row))
    Console().print(table)


def print_report(report: Report) -> None:
    """Print an evaluation, a figure a line."""
    found = report.as_dict()["bound"]
    depth = "" if report.at == report.base else f"@{report.at}"
    table = Table(show_header=False)
    table.add_row(f"mAP{depth}, expected over ties", f"{report.map:.4f}")
    table.add_row("  worst to best order of ties", f"{report.map_worst:.4f} to {report.map_best:.4f}")
    table.add_row(f"precision within radius {report.radius}", f"{report.precision_within_radius:.4f}")
    table.add_row(f"recall within radius {report.radius}", f"{report.recall_within_radius:.4f}")
    table.add_row(f"accuracy by a vote of {report.k}", number(report.knn_accuracy, 4))
    table.add_row("min D_inter of the base", number(found["inter"]))
    table.add_row("max D_intra of the base", number(found["intra"]))
    table.add_row("D_inter / D_intra", number(found["ratio"], 3))
    table.add_row("queries, base codes", f"{report.queries:,}, {report.base:,}")
    table.add_row("queries without a relevant code", f"{report.empty_queries:,}")
    Console().print(table)


def print_neighbors(found: Mapping[str, Any]) -> None:
    """Print the answer of a search."""
    label = "" if found["label"] is None else f", label {found['label']}"
    table = Table(
        "rank", "row", "distance", "label", title=f"nearest to row {found['row']}{label}", title_justify="left"
    )
    for neighbor in found["neighbors"]:
        shown = "–" if neighbor["label"] is None else str(neighbor["label"])
        table.add_row(str(neighbor["rank"]), str(neighbor["row"]), str(neighbor["distance"]), shown)
    Console().print(table)


def print_centers(facts: Mapping[str, Any]) -> None:
    """Print how far apart centers are."""
    table = Table(show_header=False, title=f"{facts['classes']} centers of {facts['bits']} bits", title_justify="left")
    table.add_row("kind", facts["kind"])
    table.add_row("minimum distance", str(facts["minimum_distance"]))
    table.add_row("mean distance", number(facts["mean_distance"], 2))
    table.add_row("bit balance, worst |mean|", number(facts["bit_balance"], 3))
    for distance, count in facts["histogram"].items():
        table.add_row(f"pairs at distance {distance}", f"{count:,}")
    Console().print(table)


def method_rows() -> list[dict[str, str]]:
    """Name, title and source of every host method."""
    from lbhash.objectives import METHODS

    rows = []
    for name, kind in METHODS.items():
        source = (__import__(kind.__module__, fromlist=["__doc__"]).__doc__ or "").strip()
        rows.append(
            {"name": name, "guided": f"{name}_d", "summary": (kind.__doc__ or "").split(".")[0], "source": source}
        )
    return rows


def print_methods() -> None:
    """Print the host methods."""
    table = Table("--method", "with --guided", "what it does", "source")
    for row in method_rows():
        table.add_row(row["name"], row["guided"], row["summary"], row["source"])
    Console().print(table)


def _column(name: str) -> Column:
    return Column(name, justify="left" if name == "method" else "right", no_wrap=True)
