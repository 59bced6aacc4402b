"""Images as training rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from lbhash.data.images import ImageSplit
from lbhash.data.images.loading import preprocess
from lbhash.models.backbone import Backbone
from lbhash.training.images.augment import Augmentation, augmentation_numbers
from lbhash.training.images.preprocessing import PixelValues, input_size
from lbhash.utils.fingerprint import fingerprint

if TYPE_CHECKING:
    from PIL.Image import Image

CACHED_BYTES = 256 << 20  # of decoded images in each reading process; a larger split is not cached
_BILINEAR = 2  # the filter's number in Pillow and transformers


class ImageRows:
    """A split of images as ``TrainingRows``: read, decoded and preprocessed.

    With augmentation, an image is cropped, scaled, flipped and recolored by numbers that depend only on seed, epoch and
    its row in the table; then its pixel values are changed as by the backbone's preprocessing. Without augmentation
    (for validation rows, and when encoding), the preprocessing does everything. A small split is decoded only once.
    """

    def __init__(
        self, split: ImageSplit, backbone: Backbone, *, augmentation: Augmentation | None = None, seed: int = 0
    ) -> None:
        self.split, self.augmentation, self.seed = split, augmentation, seed
        self.labels = split.labels
        self._processor, self._name = backbone.processor, backbone.name  # no model: reading processes do not need it
        self._preprocessing = backbone.preprocessing()
        if augmentation is not None:
            self._size, self._values = input_size(backbone), PixelValues(backbone)
        self._store = split.images.store.in_any_order(split.rows)
        self._cached: dict[int, Image] | None = {}
        self._cached_bytes = 0

    def __len__(self) -> int:
        return len(self.split)

    def inputs(self, index: npt.NDArray[np.int64], epoch: int) -> Tensor:
        """Return images by positions in the split, ``float32 [m, 3, height, width]``, channels last in memory."""
        rows = self.split.rows[index].tolist()
        images = [self._read(row) for row in rows]
        if self.augmentation is None:
            values = preprocess(self._processor, images, self._name).float()
            return values.contiguous(memory_format=torch.channels_last)
        resample = int(getattr(self._processor, "resample", None) or _BILINEAR)
        pixels = np.empty((len(rows), *self._size, 3), np.uint8)
        for at, (row, image) in enumerate(zip(rows, images, strict=True)):
            numbers = augmentation_numbers(self.seed, epoch, row)
            pixels[at] = np.asarray(self.augmentation.apply(image, self._size, numbers, resample))
        return torch.from_numpy(self._values(pixels)).permute(0, 3, 1, 2)

    def _read(self, row: int) -> Image:
        """Return the image of a row of the table, from the cache if possible."""
        if self._cached is None:
            return self._store.read(row)
        image = self._cached.get(row)
        if image is None:
            image = self._cached[row] = self._store.read(row)
            self._cached_bytes += 3 * image.width * image.height
            if self._cached_bytes > CACHED_BYTES:
                self._cached = None
        return image

    def fingerprint(self) -> str:
        """Return the fingerprint of images, labels, preprocessing and augmentation."""
        said = {"preprocessing": self._preprocessing, "augmentation": repr(self.augmentation)}
        return fingerprint({**said, "part": self.split.fingerprint(), "seed": self.seed})
