"""Options that several commands share."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
BaseFile = Annotated[Path | None, typer.Option(help="A file of the base rows; --data then holds the train rows.")]
QueryFile = Annotated[Path | None, typer.Option(help="A file of the query rows, together with --base.")]
Protocol = Annotated[
    str | None, typer.Option(help="How to draw the splits; the file's own flags where it is not given.")
]
SplitSeed = Annotated[int, typer.Option(help="Seed of the protocol's draw.")]
Backbone = Annotated[
    str | None,
    typer.Option(help="For images: a folder or Hub id of a vision model of transformers; a model knows its own."),
]
Layout = Annotated[
    str | None,
    typer.Option(
        help="How images lie in DATA: parquet, lists, cifar, nuswide, coco, mirflickr, imagenet, files (without "
        "labels) or folder (a folder a class); seen by the names of the files where it is not given."
    ),
]
Images = Annotated[Path | None, typer.Option(help="The folder that the paths in DATA's own lists are seen from.")]
ClassList = Annotated[Path | None, typer.Option(help="A file that lists the classes (WordNet ids) of an ImageNet.")]
Carry = Annotated[
    list[str] | None,
    typer.Option(
        help="A column of DATA, a .parquet file, that travels with the codes, or the 'path' of images in files; may "
        "be given often."
    ),
]
Model = Annotated[Path, typer.Option(help="A folder that 'lbhash train' wrote.")]


class Split(str, Enum):
    """What to encode."""

    train = "train"
    base = "base"
    query = "query"
    all = "all"


class Damaged(str, Enum):
    """What becomes of images that are missing or damaged."""

    refuse = "refuse"
    skip = "skip"


DamagedImages = Annotated[Damaged, typer.Option(help="Refuse data with missing or damaged images, or skip these.")]


def image_options(
    backbone: str | None, layout: str | None, images: Path | None, class_list: Path | None, damaged: Damaged
) -> ImageOptions | None:
    """What the options say of images; ``None`` where they say nothing."""
    if backbone is layout is images is class_list is None and damaged is Damaged.refuse:
        return None
    from lbhash.pipeline.embeddings import ImageOptions

    return ImageOptions(backbone, layout, images, class_list, damaged.value)


def new_image_options(
    backbone: str | None, layout: str | None, images: Path | None, class_list: Path | None, damaged: Damaged
) -> ImageOptions | None:
    """As ``image_options``, where there is no model yet that would know a backbone.

    Raises:
        ValueError: something is said of images, and no backbone is given.
    """
    given = {"layout": layout, "images": images, "class-list": class_list, "damaged": damaged.value}
    for name, value in given.items():
        if backbone is None and value not in (None, Damaged.refuse.value):
            raise ValueError(f"{name} is {str(value)!r} without a backbone; it is for images: give --backbone too")
    return image_options(backbone, layout, images, class_list, damaged)


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))
