"""Images as rows to learn from."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lbhash.data.images import ImageSplit
from lbhash.data.images.preprocessing import preprocess
from lbhash.models.backbone import Backbone
from lbhash.training.images.augment import Augmentation, draws_of
from lbhash.training.images.preprocessing import PixelValues, input_size

if TYPE_CHECKING:
    from PIL.Image import Image

HELD_BYTES = 256 << 20
"""The most decoded images of a split that are held, in each process that reads; of a larger split none are."""

_BILINEAR = 2  # Pillow's number, and that of the processors of transformers


class ImageRows:
    """A split of images as ``lbhash.training`` takes it (``TrainingRows``): read, decoded and preprocessed as asked.

    With augmentation an image is cropped, scaled, flipped and recolored by numbers that follow from seed, epoch and
    its row in the table; its pixels' values are then those of the backbone's preprocessing. Without, the preprocessing
    does it all, as when codes are made. A small split is decoded once.

    Args:
        split: the images, with labels.
        backbone: whose preprocessing.
        augmentation: of training rows; ``None`` for rows that validate.
        seed: of the augmentation.

    Attributes:
        labels: of the split.
    """

    def __init__(
        self, split: ImageSplit, backbone: Backbone, *, augmentation: Augmentation | None = None, seed: int = 0
    ) -> None:
        if split.labels is None:
            raise ValueError("split has no labels; training needs one for each row")
        self.split, self.augmentation, self.seed = split, augmentation, seed
        self.labels = split.labels
        self._processor, self._name = backbone.processor, backbone.name  # and no model, for processes that read
        self._preprocessing = backbone.preprocessing()
        if augmentation is not None:
            self._size, self._values = input_size(backbone), PixelValues(backbone)
        self._store = split.images.store.in_any_order(split.rows)
        self._held: dict[int, Image] | None = {}
        self._held_bytes = 0

    def __len__(self) -> int:
        return len(self.split)

    def inputs(self, index: npt.NDArray[np.int64], epoch: int) -> Tensor:
        """The images at these positions of the split in an epoch, ``float32 [m, 3, height, width]``, channels last.

        Raises:
            ValueError: an image is damaged; the message names it.
        """
        rows = self.split.rows[index].tolist()
        images = [self._read(row) for row in rows]
        if self.augmentation is None:
            values = preprocess(self._processor, images, self._name).float()
            return values.contiguous(memory_format=torch.channels_last)
        resample = int(getattr(self._processor, "resample", None) or _BILINEAR)
        pixels = np.empty((len(rows), *self._size, 3), np.uint8)
        for at, (row, image) in enumerate(zip(rows, images, strict=True)):
            draws = draws_of(self.seed, epoch, row)
            pixels[at] = np.asarray(self.augmentation.apply(image, self._size, draws, resample))
        return torch.from_numpy(self._values(pixels)).permute(0, 3, 1, 2)

    def _read(self, row: int) -> Image:
        """The image of a row of the table."""
        held = self._held
        if held is not None and row in held:
            return held[row]
        image = self._store.read(row)
        if held is not None:
            self._held_bytes += 3 * image.width * image.height
            held[row] = image
            if self._held_bytes > HELD_BYTES:
                self._held = None
        return image

    def fingerprint(self) -> str:
        """Of images, labels, preprocessing and augmentation, 16 hexadecimal digits."""
        said: dict[str, Any] = {"preprocessing": self._preprocessing, "augmentation": repr(self.augmentation)}
        said |= {"part": self.split.fingerprint(), "seed": self.seed}
        return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()[:16]
