"""``lbhash train``: train a model, evaluate it, and save both in a folder."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lbhash.cli.commands.options import (
    Data,
    Json,
    MethodOptions,
    TopK,
    as_typed,
    method_options,
    new_data,
    print_json,
    with_options,
    with_settings,
)

if TYPE_CHECKING:
    from lbhash.pipeline.embeddings import ImageOptions


@with_settings("backbone", "encoder")
@with_options(new_data)
def train(
    data: Data,
    out: Annotated[Path, typer.Option(help="Folder of the model; it must not hold one yet.")],
    freeze: Annotated[
        bool, typer.Option("--freeze", help="Keep the backbone's weights: embed once, train only the head.")
    ] = False,
    guidance_weight: Annotated[
        str | None,
        typer.Option(help="Weight of the pull: a number (the paper's is 1), or 'balanced' for the method's weight."),
    ] = None,
    option: MethodOptions = None,
    top_k: TopK = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume from OUT's checkpoint.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the model in OUT.")] = False,
    no_baselines: Annotated[
        bool, typer.Option("--no-baselines", help="Do not measure the alternatives to codes.")
    ] = False,
    as_json: Json = False,
    **options: Any,
) -> None:
    """Train a model, evaluate it, and save both in a folder."""
    from lbhash.data.loading import is_split_folder
    from lbhash.pipeline.train import train_files

    images: ImageOptions | None = options["images"]
    options["guidance"] = guidance_options(guidance_weight)
    options["options"] = method_options(option or [])
    run: dict[str, Any] = {
        "freeze": freeze,
        "top_k": top_k,
        "resume": resume,
        "overwrite": overwrite,
        "baselines": not no_baselines,
    }
    metrics = train_files(data, out, **run, **options)
    if not metrics:  # only the first process has metrics
        return
    if as_json:
        print_json(metrics)
        return
    from lbhash.cli.tables import print_alternatives, print_figures, print_training, print_unlabeled

    if "neighbors" in metrics:
        print_unlabeled(metrics)
    else:
        print_figures(metrics)
    print_alternatives(metrics)
    if metrics["training"] is None:
        typer.echo(f"model and metrics.json are in {out}")
    else:
        typer.echo(f"model, metrics.json and logs are in {out}")
        print_training(metrics["training"])
    files = as_typed(options | {"texts": None} | ({} if freeze else {"images": None}))
    if options["texts"] is not None:
        from lbhash.models.encoder import load_encoder

        column = load_encoder(out).metadata["text_column"]  # for search results
        files = f"{files} --metadata {shlex.quote(column)}"
    # Index all rows of one file, queries too: these were held out only for the evaluation.
    one = options["base"] is None and options["query"] is None and (images is not None or not is_split_folder(data))
    words = [shlex.quote(data), "--model", shlex.quote(str(out)), files, "--split all" if one else "", "--out index"]
    typer.echo(f"next: lbhash index build {' '.join(filter(None, words))}")


def guidance_options(weight: str | None) -> dict[str, float | str] | None:
    """Return the options of the pull; ``ValueError`` for an invalid weight."""
    from lbhash.losses.pulls import BALANCED

    if weight is None:
        return None
    if weight == BALANCED:
        return {"weight": weight}
    try:
        number = float(weight)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"guidance-weight is {weight!r}; it must be a finite number or {BALANCED!r}")
    return {"weight": number}
