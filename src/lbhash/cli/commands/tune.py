"""``lbhash tune``: search hyper-parameters by the lower bound."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lbhash.cli.commands.options import (
    Data,
    Json,
    MethodOptions,
    TopK,
    choice,
    method_options,
    new_data,
    print_json,
    with_options,
)
from lbhash.training.settings import Pull, Recipe, side_by_side

if TYPE_CHECKING:
    from lbhash.tuning.found import Tuning

By = Literal["ratio", "map"]


@with_options(new_data)
def tune(
    data: Data,
    out: Annotated[
        Path,
        typer.Option(
            help="Folder of the trials, the best settings and their model; an interrupted search resumes there."
        ),
    ],
    method: Annotated[str, typer.Option(help="The host method (see 'lbhash methods').")] = "csq",
    pull: Annotated[Pull | None, choice("As for 'lbhash train'.")] = None,
    option: MethodOptions = None,
    bits: Annotated[int, typer.Option(help="Length of a code, 1 to 1,024.")] = 64,
    trials: Annotated[int, typer.Option(help="How many settings to try; the first are the defaults.")] = 20,
    by: Annotated[By, choice("Choose by the ratio of the validation rows, or by their mAP.")] = "ratio",
    percentile: Annotated[float, typer.Option(help="Percentile of D_intra in the ratio; 100 is its maximum.")] = 75,
    inter_percentile: Annotated[float, typer.Option(help="Percentile of D_inter in the ratio; 0 is its minimum.")] = 10,
    top_k: TopK = None,
    compare: Annotated[bool, typer.Option("--compare", help="Compute every trial's mAP too, and plot it.")] = False,
    held_out: Annotated[float, typer.Option(help="Share of each class's training rows used for validation.")] = 0.2,
    epochs: Annotated[int, typer.Option(help="Passes over the training rows.")] = 30,
    recipe: Annotated[Recipe | None, choice("Settings that are not searched: as for 'lbhash train'.")] = None,
    prune: Annotated[bool, typer.Option(help="End a trial that is below the median of earlier trials.")] = True,
    seed: Annotated[int, typer.Option(help="Seed of the search: the same seed gives the same trials.")] = 0,
    space: Annotated[
        Path | None, typer.Option(help="A JSON file of the space to search, instead of the default.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, gpu …")] = "auto",
    as_json: Json = False,
    **source: Any,
) -> None:
    """Search for settings by the lower bound of validation rows, and train with the best.

    Images are embedded once; the backbone is not fine-tuned.
    """
    from lbhash.cli.tables import print_figures
    from lbhash.hasher import Hasher
    from lbhash.models.folder import check_replaces_ours
    from lbhash.pipeline.splits import open_embedded
    from lbhash.pipeline.train import train_model
    from lbhash.tuning.found import as_dict
    from lbhash.tuning.space import import_optuna, read_space
    from lbhash.tuning.tuner import search
    from lbhash.utils.paths import check_folder
    from lbhash.utils.validation import check_int

    import_optuna()
    check_folder(out, "out")
    check_replaces_ours(out / "model", "out")
    searched = None if space is None else read_space(space)
    loaded, metadata = open_embedded(data, **source)
    if top_k is not None:
        check_int(top_k, "top_k", 1, len(loaded.base.labeled()), "the size of the base")
    own = method_options(option or [])
    hasher = Hasher(bits, method=method, epochs=epochs, seed=seed, pull=pull, options=own, recipe=recipe, device=device)
    options: dict[str, Any] = {"by": by, "percentile": percentile, "inter_percentile": inter_percentile, "top_k": top_k}
    options |= {"compare": compare, "held_out": held_out, "space": searched, "prune": prune}
    found = search(hasher, loaded, trials=trials, folder=out, progress=not as_json, **options)
    found.save(out)
    settings = vars(side_by_side(found.hasher)) | {"progress": not as_json, "split_seed": source["split_seed"]}
    metrics = train_model(loaded, out / "model", top_k=top_k, overwrite=True, metadata=metadata, **settings)
    if as_json:
        print_json(found.as_dict() | {"trials": [as_dict(trial) for trial in found.trials], "metrics": metrics})
        return
    print_tuning(found)
    print_figures(metrics)
    typer.echo(f"trials.csv, best.json and model are in {out}")


def print_tuning(found: Tuning) -> None:
    """Print a line for each trial, with a star for the chosen one, and the warnings."""
    from lbhash.cli.tables import print_table
    from lbhash.tuning.found import score_of, state_of
    from lbhash.utils.formatting import number

    best, rows = found.best, []
    for trial in found.trials:
        score, told = score_of(trial), trial.user_attrs
        cells, warnings = ["–"] * 6, told["why"]
        if score is not None:
            cells = [number(score.ratio, 3), number(score.inter, 1), number(score.intra, 1)]
            cells += [number(score.strict_ratio, 3), number(score.map, 4), f"{score.distinct:,}"]
            warnings = ", ".join(diagnostic.kind for diagnostic in score.diagnostics)
        star = " *" if trial.number == best.number else ""
        pruned = " (pruned)" if state_of(trial) == "pruned" else ""
        rows.append([f"{trial.number}{star}", *cells, f"{told['epochs']}{pruned}", warnings])
    title = f"{len(found.trials)} trials by {found.by}, {found.held_out:,} validation rows"
    columns = ("trial", "ratio", "D_inter", "D_intra", "min / max", "mAP", "codes", "epochs", "warnings")
    print_table(columns, rows, title)
    values = {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in best.params.items()}
    chosen = ", ".join(f"{name} {value}" for name, value in values.items())
    typer.echo(f"* trial {best.number}: {chosen}")
    score = score_of(best)
    for diagnostic in (*found.diagnostics, *(score.diagnostics if score else ())):
        typer.echo(f"warning ({diagnostic.kind}): {diagnostic.line}")
