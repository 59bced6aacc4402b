"""``lbhash reproduce``: the paper's tables and figures again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lbhash.cli.commands.options import Json, print_json

if TYPE_CHECKING:
    from lbhash.reproduce.results.result import Result

ALL = "all"
ALL_SUMMARY = "every experiment, and report.html, one page of them beside the paper's figures"


def reproduce(
    name: Annotated[str | None, typer.Argument(help="An experiment that --list names, or all.")] = None,
    list_names: Annotated[bool, typer.Option("--list", help="Name the experiments, and do nothing else.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for NAME.md, .csv, .png and .svg.")] = Path("runs/reproduce"),
    seeds: Annotated[int, typer.Option(help="Repetitions of what is random.")] = 5,
    seed: Annotated[int, typer.Option(help="Of the first repetition.")] = 0,
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=FILE, FILE or digits; may be given often. The names cifar10, nuswide, imagenet100 and imagenet "
            "choose the paper's mAP and its column; mosaic stands for nuswide, tiny-imagenet for imagenet100."
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Of each training; 30 where not given.")] = None,
    lr: Annotated[float | None, typer.Option(help="Of each training, at first; 0.001 where not given.")] = None,
    bits: Annotated[list[int] | None, typer.Option(help="A length of codes; may be given often.")] = None,
    methods: Annotated[list[str] | None, typer.Option(help="A host method; may be given often.")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Trainings at a time, a thread each; all cores by default.")
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option(help="Folder of finished trainings, which are not run again; OUT/runs by default."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a table and a figure of the paper again, or all of them."""
    from lbhash.reproduce import Settings, experiments, run_experiment
    from lbhash.reproduce.runs.sources import Source

    if list_names:
        lines = {known: experiment.summary for known, experiment in experiments().items()} | {ALL: ALL_SUMMARY}
        if as_json:
            print_json({"experiments": [{"name": known, "summary": line} for known, line in lines.items()]})
            return
        for known, line in lines.items():
            typer.echo(f"{known:<16}{line}")
        return
    if name is None:
        raise ValueError("give the name of an experiment (lbhash reproduce --list)")
    settings = Settings(
        seeds=seeds,
        seed=seed,
        sources=tuple(Source.of(given) for given in data or ()),
        epochs=epochs,
        lr=lr,
        bits=tuple(bits or ()),
        methods=tuple(methods or ()),
        workers=workers,
        runs=out / "runs" if runs is None else runs,
    )
    if name == ALL:
        from lbhash.reproduce.run_all import PAGE, run_all

        found = run_all(settings, out)
        _print_all(found, out / PAGE, as_json)
        return
    result = run_experiment(name, settings, out)
    from lbhash.reproduce.results.write import as_json as result_as_json
    from lbhash.reproduce.results.write import print_result

    if as_json:
        print_json(result_as_json(name, result))
        return
    print_result(result)
    typer.echo(f"{name}.md and its files are in {out}")


def _print_all(found: dict[str, Result | str], page: Path, as_json: bool) -> None:
    """Where the page is, and what is not on it."""
    from lbhash.reproduce.results.write import as_json as result_as_json

    left_out = {name: result for name, result in found.items() if isinstance(result, str)}
    results = {name: result for name, result in found.items() if not isinstance(result, str)}
    if as_json:
        made = [result_as_json(name, result) for name, result in results.items()]
        print_json({"report": str(page), "experiments": made, "left_out": left_out})
        return
    for name, line in left_out.items():
        typer.echo(f"{name} was left out: {line}")
    typer.echo(f"the page is {page}")
