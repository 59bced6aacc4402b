"""Random changes of a training image that keep its class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lbhash.utils.validation import check_float

if TYPE_CHECKING:
    from PIL import Image

_RATIOS = (3 / 4, 4 / 3)  # smallest and largest ratio of width to height of a crop
_GRAY = (0.299, 0.587, 0.114)  # brightness of red, green and blue (ITU-R BT.601), as in Pillow
_IMAGES = 0x9127  # makes these random numbers differ from others of the same seed


@dataclass(frozen=True)
class Augmentation:
    """A random crop, flip and color change of every training image, new in every epoch.

    The crop is that of Szegedy et al. (*Going deeper with convolutions*, 2015): its share of the image's area is
    sampled uniformly from ``crop``, its aspect ratio log-uniformly from 3/4 to 4/3, then its position. Three factors f,
    sampled from 1 − x to 1 + x, change the colors as in Pillow and torchvision: brightness f·p, contrast m + f·(p − m)
    with the image's mean gray m, saturation g + f·(p − g) with the pixel's gray g. All are linear, so they are applied
    together, before or after scaling, whichever has fewer pixels.

    Attributes:
        crop: the smallest and largest share of the area.
        flip: probability of exchanging left and right.
        brightness: the x of the factor, from 0 (no change) to 1; likewise ``contrast`` and ``saturation``.
    """

    crop: tuple[float, float] = (0.5, 1.0)
    flip: float = 0.5
    brightness: float = 0.2
    contrast: float = 0.2
    saturation: float = 0.2

    def __post_init__(self) -> None:
        two = isinstance(self.crop, (tuple, list)) and len(self.crop) == 2
        if not two or not all(isinstance(share, Real) and not isinstance(share, bool) for share in self.crop):
            raise TypeError(f"crop is {self.crop!r}; it must be two numbers, the least and the most share of the area")
        if not 0 < self.crop[0] <= self.crop[1] <= 1:
            raise ValueError(f"crop is {self.crop!r}; it must be two shares above 0 and up to 1, the smaller one first")
        for name in ("flip", "brightness", "contrast", "saturation"):
            check_float(getattr(self, name), name, 0, 1)

    def apply(
        self, image: Image.Image, size: tuple[int, int], numbers: npt.NDArray[np.float64], resample: int
    ) -> Image.Image:
        """Return the changed RGB image, scaled to ``size`` (height, width) by Pillow's filter ``resample``.

        ``numbers`` are eight random numbers, uniform on [0, 1) (``augmentation_numbers``).
        """
        from PIL import Image

        height, width = size
        enlarged = image.width * image.height < width * height
        box = self._box(image.size, numbers[:4])
        made = self._recolored(image, numbers[5:]) if enlarged else image
        made = made.resize((width, height), Image.Resampling(resample), box=box, reducing_gap=2.0)
        if numbers[4] < self.flip:
            made = made.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return made if enlarged else self._recolored(made, numbers[5:])

    def _box(self, size: tuple[int, int], numbers: npt.NDArray[np.float64]) -> tuple[float, float, float, float]:
        """Return left, top, right and bottom of the crop, in fractions of pixels."""
        width, height = size
        area = width * height * (self.crop[0] + numbers[0] * (self.crop[1] - self.crop[0]))
        low, high = map(math.log, _RATIOS)
        ratio = math.exp(low + numbers[1] * (high - low))
        across, down = min(width, math.sqrt(area * ratio)), min(height, math.sqrt(area / ratio))
        left, top = numbers[2] * (width - across), numbers[3] * (height - down)
        return left, top, min(width, left + across), min(height, top + down)

    def _recolored(self, image: Image.Image, numbers: npt.NDArray[np.float64]) -> Image.Image:
        """Apply the three color factors as one 3 × 3 matrix plus a constant, rounded and clipped once."""
        spreads = (self.brightness, self.contrast, self.saturation)
        if not any(spreads):
            return image
        brightness, contrast, saturation = (1 + np.array(spreads) * (2 * numbers - 1)).tolist()
        constant = (1 - contrast) * brightness * float(np.asarray(image.convert("L")).mean())
        matrix: list[float] = []
        for channel in range(3):
            shares = [(1 - saturation) * gray for gray in _GRAY]
            shares[channel] += saturation
            matrix += [*(brightness * contrast * share for share in shares), constant]
        return image.convert("RGB", tuple(matrix))


def augmentation_numbers(seed: int, epoch: int, row: int) -> npt.NDArray[np.float64]:
    """Return eight numbers for ``Augmentation.apply``; they depend only on seed, epoch and row."""
    return np.random.default_rng([seed, epoch, row, _IMAGES]).random(8)
