"""Options that several commands share."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

import typer

from lbhash.training.settings import OF_TRAINING, Settings, arguments

if TYPE_CHECKING:
    from lbhash.pipeline.embeddings import ImageOptions, TextOptions

FIRST = ("data", "labels", "bits", "method", "out")
ADVANCED = "Advanced"
"""The panel with the settings of ``TrainingArguments``, which most people leave as they are."""
IMAGES, TEXTS = "Images", "Texts"
"""The panels of the help with the options that are for images, or for texts, alone."""

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else on standard output.")]


def _known_name(data: str | None) -> Any:
    if data is None:
        return None
    from lbhash.data import known_name

    return known_name(data)


def data_option(text: str) -> Any:
    """Return an option of data, where a data set may be named in upper or lower case."""
    return typer.Option(help=text, callback=_known_name)


def image_option(text: str, *names: str) -> Any:
    """Return an option that is for images alone, in a panel of the help that only these have."""
    return typer.Option(*names, help=text, rich_help_panel=IMAGES)


def choice(text: str, *names: str) -> Any:
    """Return an option with a few values, which may be written in upper or lower case."""
    return typer.Option(*names, help=text, case_sensitive=False)


Data = Annotated[
    str,
    data_option(
        "'digits' or 'characters'; a file of embeddings (Parquet, CSV, TSV, JSON, Arrow, .npz or .npy), a folder "
        "of such tables, or an address; or a folder with the files train, base and query. "
        "The labels of NAME.npy are in NAME_labels.npy beside it. With a backbone: images in Parquet or a folder, or "
        "'cifar10' or 'cifar100', which are downloaded once."
    ),
]
EmbeddingColumn = Annotated[
    str | None,
    typer.Option(
        help="The column of DATA with the embeddings, or a pattern of columns, such as 'emb_*'; found by name."
    ),
]
LabelColumn = Annotated[
    str | None, typer.Option(help="The column of DATA with the labels, or 'none'; found by name if not given.")
]
Labels = Annotated[
    str | None, typer.Option(help="Labels of the file --data: an .npy, or a table with a --label-column.")
]
BaseFile = Annotated[str | None, typer.Option(help="A file of the base rows; --data then holds the training rows.")]
QueryFile = Annotated[str | None, typer.Option(help="A file of the query rows, together with --base.")]
TextColumn = Annotated[
    str | None,
    typer.Option(help="The column of DATA with the texts; found by name if not given.", rich_help_panel=TEXTS),
]
SplitName = Literal["train", "base", "query", "all"]
Damaged = Annotated[
    Literal["refuse", "skip"],
    choice("Refuse data with damaged images or embeddings (missing, NaN, infinite), or skip these."),
]
TopK = Annotated[int | None, typer.Option("--top-k", help="Evaluate mAP@k; without it, mAP over the whole base.")]
MethodOptions = Annotated[
    list[str] | None,
    typer.Option("--option", help="An option of the method, NAME=VALUE, such as lam=0.01; may be given several times."),
]
RayAddress = Annotated[
    str | None, typer.Option(help="Address of the Ray cluster; if not given, one is started on this machine.")
]
Model = Annotated[Path, typer.Option(help="A folder that 'lbhash train' wrote.")]


def new_data(
    base: BaseFile = None,
    query: QueryFile = None,
    labels: Labels = None,
    embedding_column: EmbeddingColumn = None,
    label_column: LabelColumn = None,
    protocol: Annotated[
        str | None, typer.Option(help="How to split the rows; without it, the file's own flags do.")
    ] = None,
    split_seed: Annotated[int, typer.Option(help="Seed of the split.", min=0)] = 0,
    backbone: Annotated[
        str | None,
        image_option("For images: a folder or Hub id of a vision model of transformers."),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="A folder or Hub id of a model of sentence-transformers.", rich_help_panel=TEXTS),
    ] = None,
    text_column: TextColumn = None,
    damaged: Damaged = "refuse",
) -> dict[str, Any]:
    """Return the options that say what a new model learns from, as arguments of ``open_embedded``."""
    files: dict[str, Any] = {"base": base, "query": query, "labels": labels}
    files |= {"embedding_column": embedding_column, "label_column": label_column}
    files |= {"protocol": protocol, "split_seed": split_seed, "damaged": damaged}
    return {**files, "images": _image_options(backbone, damaged), "texts": _text_options(encoder, text_column)}


def encoded_data(
    base: BaseFile = None,
    query: QueryFile = None,
    labels: Labels = None,
    embedding_column: EmbeddingColumn = None,
    label_column: LabelColumn = None,
    protocol: Annotated[str | None, typer.Option(help="How to split the rows; without it, as in training.")] = None,
    split_seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the split; without it, as in training.")
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--columns",
            help="A column of DATA, one table, that goes with the codes, or the 'path' of images in files; may be "
            "given several times.",
        ),
    ] = None,
    backbone: Annotated[
        str | None,
        image_option("For images: a folder or Hub id of a vision model of transformers; a model knows its own."),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(help="The folder of the encoder of texts; a model knows its own.", rich_help_panel=TEXTS),
    ] = None,
    text_column: TextColumn = None,
    damaged: Damaged = "refuse",
) -> dict[str, Any]:
    """Return the options that say what a trained model encodes, as arguments of ``EncodingJob``."""
    files: dict[str, Any] = {"base": base, "query": query, "labels": labels, "columns": tuple(columns or ())}
    files |= {"embedding_column": embedding_column, "label_column": label_column}
    if damaged != "refuse":
        files["damaged"] = damaged
    files |= {"protocol": protocol, "split_seed": split_seed}
    return {**files, "images": _image_options(backbone, damaged), "texts": _text_options(encoder, text_column)}


def _text_options(encoder: str | None, column: str | None) -> TextOptions | None:
    """Return the settings of texts, or None if no option is about texts."""
    if encoder is column is None:
        return None
    from lbhash.pipeline.embeddings import TextOptions

    return TextOptions(encoder, column)


def _image_options(backbone: str | None, damaged: Literal["refuse", "skip"]) -> ImageOptions | None:
    """Return the settings of images, or None without a backbone."""
    if backbone is None:
        return None
    from lbhash.pipeline.embeddings import ImageOptions

    return ImageOptions(backbone, damaged)


def with_options(group: Callable[..., dict[str, Any]]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, which takes what ``group`` returns as ``**``, the options of ``group``."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        signature, more = (inspect.signature(function, eval_str=True) for function in (command, group))
        own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]

        @wraps(command)
        def run(**given: Any) -> None:
            chosen = {name: given.pop(name) for name in more.parameters}
            command(**given, **group(**chosen))

        added = [one.replace(kind=one.KEYWORD_ONLY) for one in more.parameters.values()]
        run.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        return run

    return decorated


def with_settings(*without: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command, which takes ``**settings``, an option for each training setting but those that are named.

    The options of ``FIRST`` stand first in its help.
    """
    hints = get_type_hints(Settings) | {"augment": bool}
    hints |= dict.fromkeys(("method", "backbone", "start"), str | None)

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        signature_option = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
        given = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        own = [one.replace(kind=one.KEYWORD_ONLY) for one in given]  # so that any may come first
        for one in arguments(python=False):
            if one.name not in without:
                others = ADVANCED if one.name in OF_TRAINING else None if one.name in FIRST else "Settings"
                panel = IMAGES if one.metadata.get("images") else others
                option = typer.Option(help=one.metadata["help"], rich_help_panel=panel, case_sensitive=False)
                kind: Any = Annotated[hints[one.name], option]
                own.append(signature_option(one.name, default=one.default, annotation=kind))
        own.sort(key=_place)
        command.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        return command

    return decorated


def _place(one: inspect.Parameter) -> int:
    """Return where an option stands in the help: the first ones in their order, then a panel after the other."""
    if one.name in FIRST:
        return FIRST.index(one.name)
    return len(FIRST) + [None, "Settings", ADVANCED, IMAGES, TEXTS].index(get_args(one.annotation)[1].rich_help_panel)


def integers(text: str, name: str, example: str) -> list[int]:
    """Return the integers of a text such as ``16,32``; ``ValueError`` with an example if it is none."""
    try:
        return [int(one) for one in text.split(",")]
    except ValueError:
        raise ValueError(
            f"{name} is {text!r}; it must be integers with commas between them, such as {example}"
        ) from None


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def method_options(given: list[str]) -> dict[str, Any] | None:
    """Return the options of the method that NAME=VALUE say: a value is JSON or, where it is none, a string."""
    found: dict[str, Any] = {}
    for one in given:
        name, separator, value = one.partition("=")
        if not separator or not name:
            raise ValueError(f"option is {one!r}; it must be NAME=VALUE, such as lam=0.01")
        if name in found:
            raise ValueError(f"option gives {name!r} twice; give it once")
        try:
            found[name] = json.loads({"True": "true", "False": "false", "None": "null"}.get(value, value))
        except ValueError:
            found[name] = value
    return found or None
