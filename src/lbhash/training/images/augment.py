"""Random changes of a training image that leave its class as it is."""

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

_RATIOS = (3 / 4, 4 / 3)  # the smallest and the largest of width to height of a crop
_GRAY = (0.299, 0.587, 0.114)  # the brightness of red, green and blue (ITU-R BT.601), as Pillow has it
_IMAGES = 0x9127  # keeps the random numbers for images apart from the other ones of a seed


@dataclass(frozen=True)
class Augmentation:
    """A random crop, flip and change of colors of every training image, anew in every epoch.

    The crop is that of Szegedy et al. (*Going deeper with convolutions*, 2015): its share of the image's area is
    sampled uniformly from ``crop``, the ratio of its sides by the logarithm from 3/4 to 4/3, and then its place. The
    colors are changed by three factors f, sampled from 1 − x to 1 + x, with the definitions of Pillow and torchvision:
    brightness f·p, contrast m + f·(p − m) with the mean gray m of the image, saturation g + f·(p − g) with the gray g
    of the pixel. All are linear, and applied as one, to the crop or to its scaled form, whichever is smaller.

    Attributes:
        crop: the least and the most share of the area.
        flip: probability that left and right are exchanged.
        brightness: the x of its factor, from 0 for no change to 1, as of ``contrast`` and ``saturation``.
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
        """Return an RGB image after the change, of ``size`` (height, width), scaled by Pillow's filter ``resample``.

        ``numbers`` are eight random ones, each uniform on [0, 1) (``augmentation_numbers``).
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
        """Return the image after the three factors: a matrix of 3 × 3 and a constant, rounded and cut off once."""
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
    """Return the eight numbers that ``Augmentation.apply`` takes; they follow from seed, epoch and row alone."""
    return np.random.default_rng([seed, epoch, row, _IMAGES]).random(8)
