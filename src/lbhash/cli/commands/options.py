"""Options that several commands share."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from lbhash.training.arguments import TrainingArguments, arguments

if TYPE_CHECKING:
    from lbhash.pipeline.embeddings import ImageOptions

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else on standard output.")]
Data = Annotated[
    str,
    typer.Option(
        help="'digits'; a .parquet, .npz or .npy file of embeddings; or a folder with the files train, base and query. "
        "The labels of NAME.npy are in NAME_labels.npy beside it. With a backbone: images in a file or folder, or "
        "'cifar10' or 'cifar100', which are downloaded once."
    ),
]
Labels = Annotated[Path | None, typer.Option(help="An .npy with the labels of the file --data.")]
BaseFile = Annotated[Path | None, typer.Option(help="A file of the base rows; --data then holds the training rows.")]
QueryFile = Annotated[Path | None, typer.Option(help="A file of the query rows, together with --base.")]
Protocol = Annotated[str | None, typer.Option(help="How to split the rows; without it, the file's own flags do.")]
SplitSeed = Annotated[int, typer.Option(help="Seed of the split.")]
Backbone = Annotated[
    str | None,
    typer.Option(help="For images: a folder or Hub id of a vision model of transformers; a model knows its own."),
]
Layout = Annotated[
    str | None,
    typer.Option(
        help="How images lie in DATA: parquet, lists, cifar, nuswide, coco, mirflickr, imagenet, files (without "
        "labels) or folder (a folder a class); without it, the names of the files tell."
    ),
]
Images = Annotated[Path | None, typer.Option(help="The folder that the paths in DATA's own lists are seen from.")]
ClassList = Annotated[Path | None, typer.Option(help="A file that lists the classes (WordNet ids) of an ImageNet.")]
Carry = Annotated[
    list[str] | None,
    typer.Option(
        help="A column of DATA, a .parquet file, that travels with the codes, or the 'path' of images in files; may "
        "be given several times."
    ),
]
Model = Annotated[Path, typer.Option(help="A folder that 'lbhash train' wrote.")]


SplitName = Literal["train", "base", "query", "all"]
Damaged = Literal["refuse", "skip"]
DamagedImages = Annotated[Damaged, typer.Option(help="Refuse data with missing or damaged images, or skip these.")]
TopK = Annotated[
    int | None,
    typer.Option("--top-k", "--at", help="Evaluate mAP@k; without it, mAP over the whole base."),
]


def image_options(
    backbone: str | None,
    layout: str | None,
    images: Path | None,
    class_list: Path | None,
    damaged: Damaged,
    *,
    new: bool = False,
) -> ImageOptions | None:
    """Return the settings of images, or None if no option is about images.

    Raises:
        ValueError: a model is ``new``, so that it knows no backbone, none is given, and another option is.
    """
    given = {"layout": layout, "images": images, "class-list": class_list, "damaged": damaged}
    said = {name: value for name, value in given.items() if value not in (None, "refuse")}
    if new and backbone is None:
        for name, value in said.items():
            raise ValueError(f"{name} is {str(value)!r} without a backbone; it is for images: give --backbone too")
    if backbone is None and not said:
        return None
    from lbhash.pipeline.embeddings import ImageOptions

    return ImageOptions(backbone, layout, images, class_list, damaged)


def with_settings(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, which takes ``**settings``, an option for each training setting but those that are named."""
    hints = get_type_hints(TrainingArguments, localns={"Augmentation": bool})
    hints |= {"method": str, "backbone": str | None}

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        signature_option = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
        own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        for one in arguments(python=False):
            if one.name not in without:
                panel = "Settings of images" if one.metadata.get("images") else "Settings"
                option = typer.Option(help=one.metadata["help"], rich_help_panel=panel)
                kind: Any = Annotated.__class_getitem__((hints[one.name], option))  # type: ignore[attr-defined]
                own.append(signature_option(one.name, default=one.default, annotation=kind))
        command.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        return command

    return decorated


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))
