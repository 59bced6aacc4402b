"""Views of images: embeddings of augmented versions, for methods that compare an image with itself."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from torch import Tensor

from lbhash.data.images import ImageSplit
from lbhash.data.reading_ahead import ReadAhead
from lbhash.models.backbone import Backbone
from lbhash.training.batches import in_order
from lbhash.training.images.augment import Augmentation
from lbhash.training.images.dataset import ImageRows
from lbhash.utils.memory import check_memory
from lbhash.utils.progress import counted

VIEWS = 4
_BATCH = 32


def embedded_views(
    split: ImageSplit,
    backbone: Backbone,
    augmentation: Augmentation,
    seed: int = 0,
    *,
    workers: int = 0,
    progress: str = "",
) -> npt.NDArray[np.float32]:
    """Return the embeddings of four augmented views of each image, ``float32 [n, 4, dim]``.

    The views are the augmented images that a training of four epochs would use (``ImageRows``).
    """
    shape = len(split), VIEWS, backbone.dim
    check_memory(4 * int(np.prod(shape)), f"{len(split):,} images with {VIEWS} views of {backbone.dim:,} numbers")
    views = np.empty(shape, np.float32)
    batches = in_order(len(split), _BATCH)
    read = ReadAhead(_Views(split, backbone, augmentation, seed), batches, workers)
    with counted(progress, len(split), "images", show=bool(progress)) as advance:
        for at, pixels in zip(batches, read, strict=True):
            for view, of_view in enumerate(pixels):
                views[at, view] = backbone.embed_pixels(of_view)
            advance(len(at))
    return views


class _Views:
    """The pixels of all views of a batch of rows, for reading processes, which have no model."""

    def __init__(self, split: ImageSplit, backbone: Backbone, augmentation: Augmentation, seed: int) -> None:
        self._rows = ImageRows(split, backbone, augmentation=augmentation, seed=seed)

    def __getitem__(self, index: npt.NDArray[np.int64]) -> list[Tensor]:
        return [self._rows.inputs(index, view) for view in range(VIEWS)]
