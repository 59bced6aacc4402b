"""``lbhash export``: a model as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lbhash.cli.commands.options import Json, print_json


def export(
    model: Annotated[Path, typer.Argument(help="A folder that 'lbhash train' wrote.")],
    out: Annotated[Path, typer.Option(help="The file, which must end in .onnx.")],
    backbone: Annotated[
        str | None,
        typer.Option(
            help="A vision model (folder or Hub id) to export with the head; by default the model's folder 'backbone', "
            "if there is one. Without a backbone, the file takes embeddings."
        ),
    ] = None,
    opset: Annotated[int | None, typer.Option(help="Version of ONNX's operators; 18 by default.")] = None,
    as_json: Json = False,
) -> None:
    """Write a model as an ONNX file, checked under onnxruntime before it is kept."""
    from lbhash.models.onnx import export_model

    facts = export_model(model, out, backbone=backbone, opset=opset)
    if as_json:
        print_json(facts)
        return
    inputs, outputs = (
        ", ".join(f"{one['name']} {one['type']} [{', '.join(map(str, one['shape']))}]" for one in facts[which])
        for which in ("inputs", "outputs")
    )
    typer.echo("{out} ({bytes:,} bytes, opset {opset})".format(**facts))
    typer.echo(f"{inputs} -> {outputs}")
    typer.echo(
        "onnxruntime {onnxruntime} on {rows} rows: logits within {largest_difference:.1e} of the library's, "
        "{differing_bits} bits differ".format(**facts)
    )
