"""``lbhash tune``: hyper-parameters by the lower bound."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lbhash.cli.commands.options import (
    BaseFile,
    ClassList,
    DamagedImages,
    Data,
    Images,
    Json,
    Labels,
    Layout,
    Protocol,
    QueryFile,
    SplitSeed,
    image_options,
    print_json,
)

if TYPE_CHECKING:
    from lbhash.tuning import Trial, Tuning


class Criterion(str, Enum):
    """What settings are chosen by."""

    ratio = "ratio"
    map = "map"


def tune(
    out: Annotated[Path, typer.Option(help="Folder of the trials, the best settings and the model trained with them.")],
    data: Data = "digits",
    base: BaseFile = None,
    query: QueryFile = None,
    labels: Labels = None,
    protocol: Protocol = None,
    split_seed: SplitSeed = 0,
    backbone: Annotated[
        str | None, typer.Option(help="For images: a folder or Hub id of a vision model, which stays as it is.")
    ] = None,
    layout: Layout = None,
    images: Images = None,
    class_list: ClassList = None,
    damaged: DamagedImages = "refuse",
    method: Annotated[str, typer.Option(help="The host method (see 'lbhash methods').")] = "csq",
    guided: Annotated[bool, typer.Option(help="Add the guidance.")] = True,
    bits: Annotated[int, typer.Option(help="Length of a code, 1 to 1,024.")] = 64,
    trials: Annotated[int, typer.Option(help="How many settings to try; the first are the defaults.")] = 20,
    by: Annotated[
        Criterion, typer.Option(help="Choose by the ratio of the held-out rows' codes, or by their mAP.")
    ] = Criterion.ratio,
    percentile: Annotated[
        float | None, typer.Option(help="Of D_intra in the ratio; 100 for its maximum, 75 if not given.")
    ] = None,
    inter_percentile: Annotated[
        float | None, typer.Option(help="Of D_inter in the ratio; 0 for its minimum, 10 if not given.")
    ] = None,
    at: Annotated[int | None, typer.Option(help="Rank of the mAP; the whole base where not given.")] = None,
    compare: Annotated[bool, typer.Option("--compare", help="Compute the mAP of every trial too, and an image.")] = (
        False
    ),
    held_out: Annotated[float, typer.Option(help="Share of each class's training rows that judges.")] = 0.2,
    epochs: Annotated[int, typer.Option(help="Passes over the training rows.")] = 30,
    prune: Annotated[bool, typer.Option(help="End a trial that is below the median of those before.")] = True,
    seed: Annotated[int, typer.Option(help="Same seed, same machine: the same trials.")] = 0,
    space: Annotated[Path | None, typer.Option(help="A JSON file of what to search, in the default's place.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, gpu …")] = "auto",
    threads: Annotated[int, typer.Option(help="Of PyTorch while it trains on a CPU.")] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from OUT's trials.")] = False,
    as_json: Json = False,
) -> None:
    """Search hyper-parameters by the lower bound of held-out training rows, and train with the best.

    Images are embedded once, by a backbone that stays as it is.
    """
    from lbhash.cli.tables import print_metrics
    from lbhash.hasher import Hasher
    from lbhash.pipeline.splits import open_embedded
    from lbhash.pipeline.train import train_model
    from lbhash.tuning import INTER_PERCENTILE, PERCENTILE, read_space, search
    from lbhash.tuning.study import import_optuna
    from lbhash.tuning.write import write_tuning
    from lbhash.utils.files import check_folder
    from lbhash.utils.formatting import number

    import_optuna()
    check_folder(out, "out")
    searched = None if space is None else read_space(space)
    options = image_options(backbone, layout, images, class_list, damaged, new=True)
    loaded, about = open_embedded(
        data, options, base=base, query=query, labels=labels, protocol=protocol, split_seed=split_seed
    )
    if at is not None and not 1 <= at <= len(loaded.base):
        raise ValueError(f"at is {at}; it must be from 1 to the size of the base ({len(loaded.base)})")
    hasher = Hasher(bits, method, guided, epochs, seed, device=device, threads=threads)

    def say(trial: Trial) -> None:
        score = trial.score
        value = f"failed: {trial.why}" if score is None else f"ratio {number(score.by('ratio'), 3)}"
        value += "" if score is None or score.map is None else f", mAP {score.map:.4f}"
        ended = f", pruned after {trial.epochs} epochs" if trial.state == "pruned" else ""
        which = f"[{trial.number + 1}/{trials}] trial {trial.number}"
        typer.echo(f"{which}: {value}{ended}, {trial.seconds:.1f} s", err=True)

    found = search(
        hasher,
        loaded,
        trials=trials,
        by=by.value,
        percentile=PERCENTILE if percentile is None else percentile,
        inter_percentile=INTER_PERCENTILE if inter_percentile is None else inter_percentile,
        at=at,
        compare=compare,
        held_out=held_out,
        space=searched,
        prune=prune,
        folder=out,
        resume=resume,
        after_trial=say,
    )
    write_tuning(found, out)
    settings = {name: value for name, value in found.hasher.get_params().items() if name != "progress"}
    metrics = train_model(
        loaded,
        out / "model",
        at=at,
        split_seed=split_seed,
        overwrite=True,
        progress=not as_json,
        about=about,
        **settings,
    )
    if as_json:
        print_json(found.as_dict() | {"trials": [trial.as_dict() for trial in found.trials], "metrics": metrics})
        return
    print_tuning(found)
    print_metrics([metrics], title=f"{loaded.name}, {bits} bits, trained on all training rows")
    typer.echo(f"trials.csv, best.json and model are in {out}")


def print_tuning(found: Tuning) -> None:
    """Print a line a trial, the chosen one marked, and what speaks against the ratio."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from lbhash.utils.formatting import number

    console = Console()
    title = f"{len(found.trials)} trials by {found.by}, {found.held_out:,} held-out rows"
    columns = ("trial", "ratio", "D_inter", "D_intra", "min / max", "mAP", "codes", "epochs", "warnings")
    table = Table(*columns, title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for trial in found.trials:
        mark = " *" if trial.number == found.best.number else ""
        score = trial.score
        cells = ["–"] * 6
        kinds = trial.why
        if score is not None:
            cells = [
                number(score.ratio, 3),
                number(score.inter, 1),
                number(score.intra, 1),
                number(score.strict_ratio, 3),
            ]
            cells += [number(score.map, 4), f"{score.distinct:,}"]
            kinds = ", ".join(caution.kind for caution in score.cautions)
        ended = " (pruned)" if trial.state == "pruned" else ""
        table.add_row(f"{trial.number}{mark}", *cells, f"{trial.epochs}{ended}", kinds)
    console.print(table)
    best = found.best
    assert best.score is not None
    chosen = ", ".join(f"{name} {_short(value)}" for name, value in best.params.items())
    typer.echo(f"* trial {best.number}: {chosen}")
    for caution in (*found.cautions, *best.score.cautions):
        typer.echo(f"warning ({caution.kind}): {caution.line}")


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
