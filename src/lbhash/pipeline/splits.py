"""Choose the rows of the data for a command: the training's split, or another."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lbhash.data import Dataset, load_dataset
from lbhash.data.images import holds_images
from lbhash.pipeline.columns import label_columns
from lbhash.pipeline.embeddings import ImageOptions, TextOptions, embed_dataset, embed_texts
from lbhash.utils.fetched import fetched
from lbhash.utils.formatting import some_names

if TYPE_CHECKING:
    from lbhash.hasher import Hasher


def split_of_training(hasher: Hasher, protocol: str | None, seed: int | None) -> tuple[str | None, int]:
    """Return the protocol and seed of a split; where None, those of the model's training.

    The protocol stays None if the training's splits came from flags or files.
    """
    metadata = hasher.model_.metadata
    if protocol is None and metadata.get("protocol") not in ("flags", "files"):
        protocol = metadata.get("protocol")
    return protocol, metadata.get("split_seed", 0) if seed is None else seed


def open_embedded(
    data: str | Path,
    images: ImageOptions | None = None,
    *,
    protocol: str | None = None,
    split_seed: int = 0,
    damaged: str = "refuse",
    texts: TextOptions | None = None,
    **files: Any,
) -> tuple[Dataset, dict[str, Any]]:
    """Load train, base and query as embeddings; also return metadata about the embeddings for the model's config.

    ``images`` or ``texts`` set how images or texts are embedded; both are None for embeddings. The other arguments are
    those of ``load_dataset``, which takes the files ``base``, ``query`` and ``labels``. ``damaged`` is for rows of
    embeddings and texts; ``images`` has its own option.
    """
    data = fetched(data, "data")
    if images is not None:
        table, backbone = images.open(data)
        table.dataset(protocol, split_seed).check_several_classes()  # before the work of embedding
        embedded = embed_dataset(table, backbone, damaged=images.damaged, progress=True)
        return embedded.dataset(protocol, split_seed), {"backbone": backbone.metadata()}
    if holds_images(data):
        raise ValueError(f"data is {str(data)!r}, which holds images; give what embeds them (--backbone FOLDER)")
    reading = {} if texts is None else texts.open()
    dataset = load_dataset(data, **files, **reading, protocol=protocol, seed=split_seed, damaged=damaged)
    if dataset.train.labels is None and files.get("label_column") is None and (columns := label_columns(data)):
        said = f"{data} has no column with a usual name for labels; it has {some_names(columns)}"
        print(f"{said}; --label-column names one", file=sys.stderr)
    if texts is None:
        return dataset, {}
    dataset.check_several_classes()  # before the work of embedding
    column: Any = dataset.train.embeddings
    metadata = {"backbone": reading["encoder"].metadata(), "text_column": column.column}
    return embed_texts(dataset, progress=True), metadata


def check_images_alone(**files: Any) -> None:
    """Raise ``ValueError`` if other files (base, query or labels) are given together with images."""
    for name, value in files.items():
        if value is not None:
            what = "which are one file or folder with its own labels and splits"
            raise ValueError(f"{name} is {str(value)!r} and the data are images, {what}")
