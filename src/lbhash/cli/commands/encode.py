"""``lbhash encode``: encode a data set into a file, or a large one into a folder of parts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from lbhash.cli.commands.options import (
    Data,
    Json,
    Model,
    RayAddress,
    SplitName,
    choice,
    encoded_data,
    print_json,
    with_options,
)
from lbhash.cli.panels import MACHINE


@with_options(encoded_data)
def encode(
    data: Data,
    model: Model,
    out: Annotated[str, typer.Option(help="The file of codes, .parquet or .npz; or a folder of parts.")],
    split: Annotated[SplitName, choice("Which rows: all of one file, or those of a split.")] = "all",
    batch_size: Annotated[
        int | None,
        typer.Option(
            help="Folders only: images in a pass through the backbone; 32 if not given.", rich_help_panel=MACHINE
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Folders only: processes that decode images; if not given, one less than the cores, or none on two."
        ),
    ] = None,
    precision: Annotated[
        Literal["32", "bf16"] | None,
        choice("Folders only: precision of the backbone; bf16 is faster, and changes some bits."),
    ] = None,
    engine: Annotated[
        Literal["local", "ray"] | None,
        choice("Folders only: this process, or a Ray cluster that sees the same files."),
    ] = None,
    ray_address: RayAddress = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file OUT, or start a folder again.")
    ] = False,
    as_json: Json = False,
    **options: Any,
) -> None:
    """Encode embeddings, or images, into packed codes.

    A folder takes any number of rows or images in the same memory.
    Repeat an interrupted command to resume it.
    """
    from lbhash.pipeline.encode import encode as run
    from lbhash.pipeline.encoding.job import EncodingJob

    job = EncodingJob(model, data, split, batch_size=batch_size, precision=precision, workers=workers, **options)
    facts = run(job, out, engine=engine, ray_address=ray_address, overwrite=overwrite)
    if as_json:
        print_json(facts)
        return
    line = "{codes:,} codes of {bits} bits ({bytes:,} bytes) are in {out}"
    if "parts" in facts:
        line += ", {parts:,} parts, of which {found:,} were there before"
        line += "\n{codes:,} codes + {damaged:,} damaged = {rows:,} {unit}"
    if facts.get("damaged"):
        from lbhash.utils.parts import DAMAGED

        line += "; the damaged ones are named in {names}"
        facts["names"] = Path(out) / DAMAGED
    typer.echo(line.format(**facts))
