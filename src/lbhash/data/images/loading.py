"""Decode and preprocess a batch of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lbhash.utils.formatting import one_line
from lbhash.utils.parts import Damage

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor

    from lbhash.data.images.stores import ImageStore


class ImageReader:
    """Decodes images and preprocesses them by a backbone's processor; if it is None, only decodes them."""

    def __init__(self, store: ImageStore, processor: Any = None, name: str = "") -> None:
        self.store, self.processor, self.name = store, processor, name

    def __getitem__(
        self, rows: npt.NDArray[np.int64]
    ) -> tuple[Tensor | None, npt.NDArray[np.int64], tuple[Damage, ...]]:
        """Return the pixels of readable rows, their positions, and the damage of the other rows."""
        images, read, damaged = [], [], []
        for at, row in enumerate(rows.tolist()):
            try:
                image = self.store.read(row)
            except ValueError as error:
                damaged.append(Damage(row, self.store.where(row), str(error)))
                continue
            read.append(at)
            if self.processor is not None:
                images.append(image)
        pixels = preprocess(self.processor, images, self.name) if images else None
        return pixels, np.array(read, np.int64), tuple(damaged)


def preprocess(processor: Any, images: list[Image.Image], name: str) -> Tensor:
    """Return RGB images preprocessed for the backbone ``name``, a tensor ``[n, channels, h, w]``."""
    try:
        values = processor(images, return_tensors="pt")["pixel_values"]
    except (TypeError, ValueError) as error:
        raise ValueError(f"the preprocessing of backbone {name!r} failed: {one_line(error)}") from None
    if values.ndim != 4:
        said = f"the preprocessing of backbone {name!r} gives {list(values.shape)}"
        raise ValueError(f"{said}; it must give images of one size, [n, channels, height, width]")
    return values
