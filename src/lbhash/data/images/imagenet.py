"""ImageNet from its folders: all of its classes, or those that a file lists."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lbhash.data.images.folders import folders_in, images_in
from lbhash.data.images.stores import FileImages
from lbhash.data.images.table import ImageTable
from lbhash.utils.files import existing_file

WORDNET_ID = "n" + 8 * "[0-9]"  # as glob has patterns


def read_imagenet(
    path: str | Path, classes: str | Path | Sequence[str] | None = None, name: str = "data"
) -> ImageTable:
    """Read ``train`` and ``val``, the classes of a list or all, in the list's order or that of their names.

    Protocol ``imagenet100`` queries with the validation images of the listed classes, and has the training images
    as base, 100 a class of which train; ``imagenet1000`` trains on all of ``train``, and of ``val`` 5 a class are
    queries and 45 the base.

    The folder has ``train/WORDNET_ID/…`` and ``val/WORDNET_ID/…``. The list is a file of WordNet ids, the first word of
    each line; or the ids themselves.
    """
    root = Path(path)
    for folder in ("train", "val"):
        if not (root / folder).is_dir():
            raise ValueError(f"{name} is {str(path)!r}, which has no folder {folder!r}; it must have train and val")
    known = folders_in(root / "train")
    chosen = known if classes is None else _listed(classes, known)
    files: list[str] = []
    counts: list[int] = []
    for label in chosen:
        for folder in ("train", "val"):  # without a look at the folders of other classes
            found = images_in(root / folder / label)
            if not found:
                raise ValueError(f"{name} has no image of class {label} in {folder}; it must have {folder}/{label}/…")
            files += [os.path.join(folder, label, file) for file in found]
            counts.append(len(found))
    published = np.repeat(np.arange(2 * len(chosen)), counts)  # of each image: two a class, training and validation set
    store, protocol = FileImages(root, files), "imagenet1000" if classes is None else "imagenet100"
    return ImageTable(store, published // 2, root.name, {}, published % 2 == 1, protocol, tuple(chosen))


def _listed(classes: str | Path | Sequence[str], known: list[str]) -> list[str]:
    if isinstance(classes, (str, Path)):
        lines = existing_file(classes, "classes").read_text(encoding="utf-8").splitlines()
        listed, said = [line.split()[0] for line in lines if line.strip()], repr(str(classes))
    else:
        listed, said = list(classes), "a list"
    if not listed:
        raise ValueError(f"classes is {said}, which lists none")
    twice = next((label for label, count in Counter(listed).items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"classes is {said}, which lists {twice} twice")
    absent = [label for label in listed if label not in set(known)]
    if absent:
        raise ValueError(f"classes lists {absent[0]!r}, which has no folder in train ({len(absent)} have none)")
    return listed
