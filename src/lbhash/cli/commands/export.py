"""``lbhash export``: write a model as an ONNX file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lbhash.cli.commands.options import Json, print_json


def export(
    model: Annotated[Path | None, typer.Argument(help="A folder that 'lbhash train' wrote.")] = None,
    out: Annotated[Path | None, typer.Option(help="The file, which must end in .onnx.")] = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            help="A vision model (folder or Hub id) to export with the head; by default the model's folder 'backbone', "
            "if there is one. Without a backbone, the file takes embeddings."
        ),
    ] = None,
    opset: Annotated[int | None, typer.Option(help="Version of ONNX's operators; 18 by default.")] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="Instead of MODEL, a text encoder: add an ONNX file to its folder, which loads faster."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a model as an ONNX file, checked under onnxruntime before it is kept."""
    if encoder is not None:
        from lbhash.models.texts_export import export_encoder

        facts = export_encoder(encoder)
        said = "{out} ({bytes:,} bytes)\n{texts} texts: cosine with PyTorch's embeddings at least {least_cosine:.6f}"
    else:
        from lbhash.models.onnx import export_model

        assert model is not None
        assert out is not None
        facts = export_model(model, out, backbone=backbone, opset=opset)
        inputs, outputs = (
            ", ".join(f"{one['name']} {one['type']} [{', '.join(map(str, one['shape']))}]" for one in facts[which])
            for which in ("inputs", "outputs")
        )
        said = "{out} ({bytes:,} bytes, opset {opset})\n" + f"{inputs} -> {outputs}\n"
        said += "onnxruntime {onnxruntime} on {rows} rows: logits within {largest_difference:.1e} of the library's, "
        said += "{differing_bits} bits differ"
    if as_json:
        print_json(facts)
    else:
        typer.echo(said.format(**facts))
