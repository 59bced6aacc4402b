"""``lbhash reproduce``: repeat the paper's tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lbhash.cli.commands.options import Json, integers, print_json, several

if TYPE_CHECKING:
    from lbhash.reproduce import Settings

ALL = "all"
ALL_SUMMARY = "every experiment that the data suit"


def reproduce(
    name: Annotated[str | None, typer.Argument(help="An experiment that --list names, or all.")] = None,
    list_names: Annotated[bool, typer.Option("--list", help="Name the experiments, and do nothing else.")] = False,
    out: Annotated[
        Path,
        typer.Option(help="Folder for NAME.md, .csv, .png and the trainings."),
    ] = Path("runs/reproduce"),
    seeds: Annotated[int, typer.Option(help="How often to repeat random experiments.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the first repetition; the others follow it.")] = 0,
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=FILE, FILE or digits; may be given often. The names cifar10, nuswide, imagenet100 and imagenet "
            "choose the paper's mAP and its column; mosaic stands for nuswide, tiny-imagenet for imagenet100."
        ),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Epochs of each training; 30 by default.")] = None,
    lr: Annotated[float | None, typer.Option(help="Learning rate at the start; 0.001 by default.")] = None,
    bits: Annotated[list[str] | None, several("Numbers of bits, such as 16,32.")] = None,
    method: Annotated[list[str] | None, several("Host methods, such as csq,dch.")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Trainings at a time, with one thread each; all cores by default.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Repeat a table and a figure of the paper, or all of them."""
    from lbhash.reproduce import Settings, run_experiment
    from lbhash.reproduce.runs.sources import Source

    if list_names:
        _print_names(as_json)
        return
    assert name is not None
    settings = Settings(
        seeds=seeds,
        seed=seed,
        sources=tuple(Source.of(given) for given in data or ()),
        epochs=epochs,
        lr=lr,
        bits=tuple(integers(bits or (), "bits", "16,32")),
        methods=tuple(method or ()),
        workers=workers,
        runs=out / "runs",
    )
    if name.lower() == ALL:
        _run_all(settings, out, as_json)
        return
    result = run_experiment(name, settings, out)
    from lbhash.reproduce.results import write

    if as_json:
        print_json(write.as_json(name, result))
    else:
        typer.echo(write.as_text(result))
        typer.echo(f"{name}.md and its files are in {out}")


def _print_names(as_json: bool) -> None:
    from lbhash.reproduce import experiments

    known = experiments()
    if as_json:
        listed = [{"name": name, "summary": one.summary, "in_docs": one.in_docs} for name, one in known.items()]
        print_json({"experiments": [*listed, {"name": ALL, "summary": ALL_SUMMARY}]})
        return
    typer.echo(f"{'NAME':<18}{'IN THE DOCS':<13}WHAT IT MAKES")
    for name, one in known.items():
        typer.echo(f"{name:<18}{'yes' if one.in_docs else 'no':<13}{one.summary}")
    typer.echo(f"{ALL:<31}{ALL_SUMMARY}")


def _run_all(settings: Settings, out: Path, as_json: bool) -> None:
    """Run all experiments; print where their files are and which were left out."""
    from lbhash.reproduce import run_all
    from lbhash.reproduce.results import write

    found = run_all(settings, out)
    left_out = {name: result for name, result in found.items() if isinstance(result, str)}
    if as_json:
        made = [write.as_json(name, result) for name, result in found.items() if not isinstance(result, str)]
        print_json({"experiments": made, "left_out": left_out})
        return
    for name, reason in left_out.items():
        typer.echo(f"{name} was left out: {reason}")
    typer.echo(f"The pages, tables and figures are in {out}")
