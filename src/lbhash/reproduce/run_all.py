"""All experiments after each other, and one page of them: ``lbhash reproduce all``."""

from __future__ import annotations

import sys
from pathlib import Path

from lbhash.reproduce.page import page
from lbhash.reproduce.registry import experiments
from lbhash.reproduce.results.result import Result
from lbhash.reproduce.runs.settings import Settings, command_line
from lbhash.reproduce.runs.sources import UnsuitableData
from lbhash.utils.files import check_folder, write_text

PAGE = "report.html"


def run_all(settings: Settings, out: str | Path) -> dict[str, Result | str]:
    """Run every experiment with what of the settings it can use, and write each one's files and the page of all.

    The trainings of all experiments are completed first, each once. An interrupted call goes on with what is missing.

    Returns:
        The results by name; in the place of one that the data do not suit, the line that says what it needs.
    """
    check_folder(out, "out")
    check_folder(settings.runs, "runs")
    from lbhash.reproduce.results.write import write_result
    from lbhash.reproduce.runs.grid import completed

    known = experiments()
    for source in settings.all_sources():
        source.dataset()  # what is wrong with the data is said first
    shared = [cell for experiment in known.values() for cell in experiment.cells(settings)]
    completed(settings, shared)
    found: dict[str, Result | str] = {}
    for name, experiment in known.items():
        print(f"{name}: {experiment.summary}", file=sys.stderr, flush=True)
        try:
            own = experiment.suited(settings)
            found[name] = result = experiment.run(own)
            write_result(name, result, out, command_line(name, own))
        except UnsuitableData as error:
            found[name] = str(error)
    write_text(Path(out) / PAGE, page(found, known, settings, Path(out)))
    return found
