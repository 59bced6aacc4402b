"""All experiments one after the other, and one page of them: ``lbhash reproduce all``."""

from __future__ import annotations

import sys
from pathlib import Path

from lbhash.reproduce.page import page
from lbhash.reproduce.registry import experiments
from lbhash.reproduce.results import Result
from lbhash.reproduce.runs import Settings, UnsuitableData
from lbhash.reproduce.runs.runner import complete
from lbhash.utils.files import check_folder, write_text

PAGE = "report.html"


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
    shared = [config for experiment in known.values() for config in experiment.configs(settings)]
    complete(shared, settings)
    found: dict[str, Result | str] = {}
    for name, experiment in known.items():
        print(f"{name}: {experiment.summary}", file=sys.stderr, flush=True)
        try:
            found[name] = experiment.run_and_write(experiment.suited(settings), out)
        except UnsuitableData as error:
            found[name] = str(error)
    write_text(Path(out) / PAGE, page(found, known, settings, Path(out)))
    return found
