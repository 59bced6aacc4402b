"""Which rows of the data a command takes: the split of the training, or another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lbhash.data import Dataset, EmbeddingSplit, load_dataset, load_table
from lbhash.data.images import holds_images
from lbhash.pipeline.embeddings import data_image_options

if TYPE_CHECKING:
    from lbhash.hasher import Hasher
    from lbhash.pipeline.embeddings import ImageOptions


def model_split(
    hasher: Hasher,
    data: str | Path,
    split: str,
    *,
    base: str | Path | None = None,
    query: str | Path | None = None,
    labels: str | Path | None = None,
    protocol: str | None = None,
    split_seed: int | None = None,
    images: ImageOptions | None = None,
    stream: bool = False,
) -> EmbeddingSplit:
    """A split of a data set, or ``all`` the rows of a file, as a trained model is to encode it (``encode_file``).

    Args:
        hasher: the model.
        data: a data set.
        split: train, base or query, or all the rows of one file.
        base: as of ``load_dataset``.
        query: as of ``load_dataset``.
        labels: as of ``load_dataset``.
        protocol: that of the training where it is not given.
        split_seed: that of the training where it is not given.
        images: how images are embedded; by the model's own backbone, as their files' names tell, if not given.
        stream: as of ``lbhash.data.readers.read_table``, for embeddings.
    """
    images = data_image_options(data, images)
    if images is not None:
        check_images_alone(base, query, labels)
        return _image_part(hasher, data, split, protocol, split_seed, images)
    files = base is not None or query is not None or Path(data).is_dir()
    if split == "all" and files:
        what = f"data is the folder {str(data)!r}" if Path(data).is_dir() else "base or query is given"
        raise ValueError(f"split is 'all' and {what}; all takes one file, and of several split must be one of them")
    if split == "all":
        table = load_table(data, labels, stream=stream)
        part = table.split()
    else:
        asked, seed = split_of_training(hasher, protocol, split_seed)
        protocol = protocol if files else asked
        dataset = load_dataset(data, base=base, query=query, labels=labels, protocol=protocol, seed=seed, stream=stream)
        if protocol is None and dataset.protocol not in ("flags", "files"):
            raise ValueError(
                f"split is {split!r}, and neither the model nor the data say which rows that is; "
                "give a protocol, or split all"
            )
        part = dataset.split(split)
    return with_columns(hasher, part)


def _image_part(
    hasher: Hasher, data: str | Path, split: str, protocol: str | None, split_seed: int | None, images: ImageOptions
) -> EmbeddingSplit:
    """As ``model_split``, of images."""
    protocol, seed = split_of_training(hasher, protocol, split_seed)
    if split == "all":
        part = images.embed(data, hasher).part()
    elif hasher.model_.has_tuned_backbone:
        part = _tuned_part(hasher, data, split, protocol, seed, images)
    else:
        part = images.embed(data, hasher).dataset(protocol, seed).split(split)
    return with_columns(hasher, part)


def _tuned_part(
    hasher: Hasher, data: str | Path, split: str, protocol: str | None, seed: int, images: ImageOptions
) -> EmbeddingSplit:
    """A split as a backbone embeds it that was fine-tuned, so that nothing is kept: its rows, and no others."""
    from lbhash.data.images.corrupt import check_images

    table, backbone = images.open(data, hasher)
    kept = check_images(table, damaged=images.damaged, progress=True)
    rows = table.split_rows(protocol, seed, kept)[1][split]
    embedded = table.split(rows).embedded(backbone, progress="embedding")
    embeddings = np.zeros((len(table), backbone.dim), np.float32)  # of which the other rows take no memory
    embeddings[rows] = embedded.embeddings
    return EmbeddingSplit(embeddings, rows, embedded.labels)


def split_of_training(hasher: Hasher, protocol: str | None, seed: int | None) -> tuple[str | None, int]:
    """Protocol and seed of a split: those of the model's training where they are not given.

    A training whose data said their splits themselves had no protocol that others could be drawn by.
    """
    about = hasher.model_.about
    if protocol is None and about.get("protocol") not in ("flags", "files"):
        protocol = about.get("protocol")
    return protocol, about.get("split seed", 0) if seed is None else seed


def with_columns(hasher: Hasher, part: EmbeddingSplit) -> EmbeddingSplit:
    """A split whose multi-hot labels have as many columns as those of the model's training."""
    return part.widened(hasher.model_.about.get("label columns", len(hasher.classes_)))


def open_embedded(
    data: str | Path,
    images: ImageOptions | None,
    *,
    base: str | Path | None = None,
    query: str | Path | None = None,
    labels: str | Path | None = None,
    protocol: str | None = None,
    split_seed: int = 0,
) -> tuple[Dataset[EmbeddingSplit], dict[str, Any]]:
    """Train, base and query as embeddings, and what a model is to remember of how they were made.

    Args:
        data: a data set of embeddings, or of images, which a backbone embeds that stays as it is.
        images: how images are embedded; ``None`` for embeddings.
        base: as of ``lbhash.data.load_dataset``.
        query: as of ``lbhash.data.load_dataset``.
        labels: as of ``lbhash.data.load_dataset``.
        protocol: what draws the splits.
        split_seed: of the draw.

    Raises:
        ValueError: ``data`` are images, and there is no backbone; or files of embeddings are given beside them.
    """
    if images is not None:
        check_images_alone(base, query, labels)
        embedded = images.embed(data)
        return embedded.dataset(protocol, split_seed), {"backbone": embedded.backbone, **images.about(embedded.images)}
    if holds_images(data):
        raise ValueError(f"data is {str(data)!r}, which holds images; give what embeds them (--backbone FOLDER)")
    return load_dataset(data, base=base, query=query, labels=labels, protocol=protocol, seed=split_seed), {}


def check_images_alone(base: str | Path | None, query: str | Path | None, labels: str | Path | None) -> None:
    """Raise ``ValueError`` where files of embeddings are given beside images."""
    for name, value in (("base", base), ("query", query), ("labels", labels)):
        if value is not None:
            raise ValueError(
                f"{name} is {str(value)!r} and the data are images, which are one file or folder that says itself "
                "what their labels and splits are"
            )
