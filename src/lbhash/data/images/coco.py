"""MS COCO as a multi-label set: an image has the categories of the objects in it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np

from lbhash.data.images.stores import FileImages
from lbhash.data.images.table import ImageTable
from lbhash.utils.formatting import one_line

PREFIX = "instances_"


def read_coco(path: str | Path, images: str | Path | None = None, name: str = "data") -> ImageTable:
    """Read the images that have an object; the categories count in the order of their ids.

    Protocol ``coco`` is HashNet's: 5,000 queries, the rest base, 10,000 of it to train. Of the 2014 release 122,218
    images have an object.

    The folder has ``annotations/instances_NAME.json``, one or more, and the images of each in ``NAME``, unless the
    folders ``NAME`` are in ``images``.

    Source: T.-Y. Lin et al., Microsoft COCO: Common Objects in Context, ECCV 2014.
    """
    root = Path(path)
    found = sorted((root / "annotations").glob(f"{PREFIX}*.json"))
    if not found:
        raise ValueError(f"{name} is {str(path)!r}, which has no annotations/{PREFIX}*.json")
    files: list[str] = []
    rows: list[set[int]] = []
    categories: dict[int, str] = {}
    for file in found:
        try:
            content = json.loads(file.read_text(encoding="utf-8"))
            named = {int(one["id"]): str(one["name"]) for one in content["categories"]}
            file_names = {int(one["id"]): str(one["file_name"]) for one in content["images"]}
            objects: dict[int, set[int]] = {}
            for one in content["annotations"]:
                objects.setdefault(int(one["image_id"]), set()).add(int(one["category_id"]))
            unknown = set().union(*objects.values()) - named.keys()
            if unknown:
                raise ValueError(f"an object has the category {min(unknown)}, which the file does not list")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            line = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else one_line(error)
            raise ValueError(f"{file.name} of {name} is no file of COCO's instances: {line}") from None
        if categories and named != categories:
            raise ValueError(f"{file.name} of {name} has other categories than {found[0].name}")
        categories = named
        folder = file.stem.removeprefix(PREFIX)
        for image in sorted(file_names.keys() & objects.keys()):
            files.append(os.path.join(folder, file_names[image]))
            rows.append(objects[image])
    column = {category: at for at, category in enumerate(sorted(categories))}
    labels = np.zeros((len(rows), len(column)), np.uint8)
    for row, present in enumerate(rows):
        labels[row, [column[category] for category in present]] = 1
    names = tuple(categories[category] for category in column)
    store = FileImages(Path(images) if images else root, files)
    return ImageTable(store, labels, root.name, protocol="coco", class_names=names)
