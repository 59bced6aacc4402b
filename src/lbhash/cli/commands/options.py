"""Options that several commands share."""

from __future__ import annotations

import csv
import inspect
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from lbhash.training.settings import Settings, arguments

if TYPE_CHECKING:
    from lbhash.pipeline.embeddings import ImageOptions, TextOptions

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else on standard output.")]


def _known_name(data: str | None) -> Any:
    if data is None:
        return None
    from lbhash.data.loading import known_name

    return known_name(data)


def data_option(text: str, kind: Any = typer.Option, **more: Any) -> Any:
    """Return an option or argument for data; names of data sets may be in upper or lower case."""
    return kind(help=text, callback=_known_name, **more)


def choice(text: str, *names: str, **more: Any) -> Any:
    """Return an option with a few values, in upper or lower case."""
    return typer.Option(*names, help=text, case_sensitive=False, **more)


def several(text: str, *names: str, **more: Any) -> Any:
    """Return an option with several values, separated by commas or line breaks, or given by repeating the option.

    Quote a value that contains a comma: ``'"a, b",c'``.
    """
    return typer.Option(*names, help=text, callback=split_values, **more)


def split_values(option: typer.CallbackParam, given: list[str] | None) -> list[str] | None:
    """Split the values given to an option, such as ``1,"a, b"`` into 1 and "a, b"."""
    if given is None:
        return None
    words = []
    for one in given:
        try:  # a quote in one value of the option must not reach into the next
            lines = list(csv.reader(StringIO(one, newline=""), skipinitialspace=True, strict=True))
        except csv.Error:
            said = f"{option.opts[0]} is {one!r}, whose quotes are not closed or inside a value"
            raise ValueError(f"{said}; quote a whole value, and double the quotes in it") from None
        words += [word for line in lines for word in line]
    if given and not words:
        raise ValueError(f"{option.opts[0]} is empty; give a value, or leave it out")
    return words


Data = Annotated[
    str,
    data_option(
        "A file of embeddings (Parquet, CSV, TSV, JSON, Arrow, .npz or .npy), a folder of such tables, an address, or "
        "a folder with the files train, base and query; with a backbone, images in Parquet or a folder. 'digits' and "
        "'characters' come with lbhash; 'cifar10' and 'cifar100' are images, downloaded once.",
        typer.Argument,
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
    str | None,
    typer.Option(
        help="A file of labels: an .npy, or a table with a --label-column. By default NAME_labels.npy beside NAME.npy."
    ),
]
BaseFile = Annotated[str | None, typer.Option(help="A file of the base rows; DATA then holds the training rows.")]
QueryFile = Annotated[str | None, typer.Option(help="A file of the query rows, together with --base.")]
TextColumn = Annotated[str | None, typer.Option(help="The column of DATA with the texts; found by name if not given.")]
SplitName = Literal["train", "base", "query", "all"]
Damaged = Annotated[
    Literal["refuse", "skip"],
    choice("Refuse data with damaged images or embeddings (missing, NaN, infinite), or skip these."),
]
TopK = Annotated[int | None, typer.Option("--top-k", help="Evaluate mAP@k; without it, mAP over the whole base.")]
MethodOptions = Annotated[
    list[str] | None,
    typer.Option("--option", help="An option of the method, such as lam=0.01; may be given several times."),
]
RayAddress = Annotated[
    str | None, typer.Option(help="Address of the Ray cluster; if not given, one is started on this machine.")
]
MovedBackbone = Annotated[
    str | None, typer.Option(help="Where the model's backbone of images is, if it has moved: a folder or Hub id.")
]
MovedEncoder = Annotated[
    str | None, typer.Option(help="Where the model's encoder of texts is, if it has moved: a folder or Hub id.")
]
Model = Annotated[Path, typer.Option(help="A folder that 'lbhash train' wrote.")]


def new_data(
    base: BaseFile = None,
    query: QueryFile = None,
    labels: Labels = None,
    embedding_column: EmbeddingColumn = None,
    label_column: LabelColumn = None,
    protocol: Annotated[
        str | None, typer.Option(help="How to split the rows; without it, by the file's flags.")
    ] = None,
    split_seed: Annotated[int, typer.Option(metavar="<int>", help="Seed of the split.", min=0)] = 0,
    backbone: Annotated[
        str | None, typer.Option(help="For images: a folder or Hub id of a vision model of transformers.")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="For texts: a folder or Hub id of a model of sentence-transformers.")
    ] = None,
    text_column: TextColumn = None,
    damaged: Damaged = "refuse",
) -> dict[str, Any]:
    """Return the options of a new model's data, as arguments of ``open_embedded``."""
    files: dict[str, Any] = {"base": base, "query": query, "labels": labels}
    files |= {"embedding_column": embedding_column, "label_column": label_column}
    files |= {"protocol": protocol, "split_seed": split_seed, "damaged": damaged}
    return {**files, "images": _image_options(backbone, damaged), "texts": _text_options(encoder, text_column)}


def as_typed(source: Mapping[str, Any]) -> str:
    """Return the options of ``new_data`` for reading the data, as a user types them."""
    images, texts = source["images"], source["texts"]
    names = ("base", "query", "labels", "embedding_column", "label_column", "damaged")
    given = {name: source[name] for name in names}
    given |= {"backbone": images and images.backbone}
    given |= {"encoder": texts and texts.encoder, "text_column": texts and texts.column}
    typed = {f"--{name.replace('_', '-')}": value for name, value in given.items() if value not in (None, "refuse")}
    return shlex.join(word for option, value in typed.items() for word in (option, str(value)))


def encoded_data(
    base: BaseFile = None,
    query: QueryFile = None,
    labels: Labels = None,
    embedding_column: EmbeddingColumn = None,
    label_column: LabelColumn = None,
    protocol: Annotated[str | None, typer.Option(help="How to split the rows; without it, as in training.")] = None,
    split_seed: Annotated[
        int | None, typer.Option(metavar="<int>", min=0, help="Seed of the split; without it, as in training.")
    ] = None,
    metadata: Annotated[
        list[str] | None,
        several(
            "Columns of DATA, one table, to store with the codes, such as price,title; for images path, thumbnail."
        ),
    ] = None,
    backbone: MovedBackbone = None,
    encoder: MovedEncoder = None,
    text_column: TextColumn = None,
    damaged: Damaged = "refuse",
) -> dict[str, Any]:
    """Return the options of the data to encode, as arguments of ``EncodingJob``."""
    files: dict[str, Any] = {"base": base, "query": query, "labels": labels, "metadata": tuple(metadata or ())}
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
    """Add the options of ``group`` to a command, which takes the result of ``group`` as ``**``."""

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
    """Add an option for each training setting, except those named, to a command that takes ``**settings``."""
    hints = get_type_hints(Settings) | {"augment": bool}
    hints |= dict.fromkeys(("method", "backbone", "start"), str | None)

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(command, eval_str=True)
        signature_option = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
        given = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        own = [one.replace(kind=one.KEYWORD_ONLY) for one in given]
        for one in arguments(python=False):
            if one.name not in without:
                option = typer.Option(help=one.metadata["help"], case_sensitive=False)
                kind: Any = Annotated[hints[one.name], option]
                own.append(signature_option(one.name, default=one.default, annotation=kind))
        command.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
        return command

    return decorated


def integers(words: Sequence[str], name: str, example: str) -> list[int]:
    """Parse the integers of an option; ``ValueError`` with an example for any other value."""
    try:
        return [int(word) for word in words]
    except ValueError:
        said = f"{name} is {','.join(words)!r}; it must be integers with commas between them"
        raise ValueError(f"{said}, such as {example}") from None


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def method_options(given: list[str]) -> dict[str, Any] | None:
    """Parse options of the form NAME=VALUE; a value is JSON, or otherwise a string."""
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
