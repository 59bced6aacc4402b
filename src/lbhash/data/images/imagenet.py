"""Read ImageNet from its folders: all classes, or those that a file lists."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np

from lbhash.data.images.folders import folders_in, tell_left_out, walk
from lbhash.data.images.stores import FileImages
from lbhash.data.images.table import ImageTable
from lbhash.utils.paths import existing_file


def read_imagenet(folder: Path, class_list: Path | None = None) -> ImageTable:
    """Read ``train`` and ``val``: all classes in the order of their names, or those of a list in its order.

    With ``imagenet100``, validation images of the listed classes are queries and training images are the base; 100 of
    each class train. With ``imagenet1000``, all of ``train`` trains; ``val`` gives 5 queries and 45 base images of each
    class.

    The folder has ``train/WORDNET_ID/…`` and ``val/WORDNET_ID/…``. The list has a WordNet id as the first word of each
    line.
    """
    for part in ("train", "val"):
        if not (folder / part).is_dir():
            raise ValueError(f"folder is {str(folder)!r}, which has no folder {part!r}; it must have train and val")
    classes = {part: folders_in(folder / part) for part in ("train", "val")}
    chosen = classes["train"] if class_list is None else _listed(class_list, classes["train"])
    # Folders of other classes are not visited.
    found = {part: walk(folder / part, [label for label in chosen if label in classes[part]]) for part in classes}
    files: list[str] = []
    counts: list[int] = []
    for label in chosen:
        for part in classes:
            images = found[part].images.get(label)
            if not images:
                raise ValueError(f"folder has no image of class {label} in {part}; it must have {part}/{label}/…")
            files += [os.path.join(part, label, file) for file in images]
            counts.append(len(images))
    tell_left_out(found, "folder")
    published = np.repeat(np.arange(2 * len(chosen)), counts)  # of each image: 2 × class, + 1 in the validation set
    protocol = "imagenet1000" if class_list is None else "imagenet100"
    store, test_rows = FileImages(folder, files), published % 2 == 1
    return ImageTable(store, published // 2, folder.name, {}, test_rows, protocol, tuple(chosen))


def _listed(class_list: Path, known: list[str]) -> list[str]:
    lines = existing_file(class_list, "class_list").read_text(encoding="utf-8").splitlines()
    listed, said = [line.split()[0] for line in lines if line.strip()], f"class_list is {str(class_list)!r}"
    if not listed:
        raise ValueError(f"{said}, which lists no class")
    twice = next((label for label, count in Counter(listed).items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"{said}, which lists {twice} twice")
    absent = [label for label in listed if label not in set(known)]
    if absent:
        raise ValueError(f"{said}, which lists {absent[0]!r}, and train has no such folder ({len(absent)} are missing)")
    return listed
