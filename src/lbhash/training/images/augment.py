"""Random changes of a training image that leave its class as it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL import Image

_RATIOS = (3 / 4, 4 / 3)
"""The least and the most width over height of a crop."""

_GRAY = (0.299, 0.587, 0.114)
"""How bright red, green and blue are (ITU-R BT.601), as Pillow has it."""

_IMAGES = 0x9127  # keeps what is drawn for images apart from what else is drawn of a seed


@dataclass(frozen=True)
class Augmentation:
    """A random crop, a flip, and a change of colors, of every training image anew in every epoch.

    The crop is that of Szegedy et al. (*Going deeper with convolutions*, 2015): a share of the image's area and the
    ratio of its sides are drawn, the one uniformly from ``crop`` and the other, by its logarithm, from 3/4 to 4/3; then
    a place. It is scaled to the size that the model sees. The colors are changed by three factors f, drawn from
    1 − x to 1 + x, with the definitions of Pillow and torchvision: brightness f·p, contrast m + f·(p − m) with the mean
    gray m of the image, saturation g + f·(p − g) with the gray g of the pixel. All are linear, and applied as one,
    before the crop is scaled where that enlarges it and afterwards where it does not.

    Attributes:
        crop: the least and the most share of the area. torchvision's default, for ImageNet, is from 0.08; in an image
            of 32 pixels that leaves too little to be seen.
        flip: probability that left and right are exchanged.
        brightness: x, 0 for none.
        contrast: x, 0 for none.
        saturation: x, 0 for none.

    Raises:
        TypeError: a value is not a number.
        ValueError: it is out of range.
    """

    crop: tuple[float, float] = (0.5, 1.0)
    flip: float = 0.5
    brightness: float = 0.2
    contrast: float = 0.2
    saturation: float = 0.2

    def __post_init__(self) -> None:
        if not (isinstance(self.crop, (tuple, list)) and len(self.crop) == 2 and all(map(_is_number, self.crop))):
            raise TypeError(f"crop is {self.crop!r}; it must be two numbers, the least and the most share of the area")
        if not 0 < self.crop[0] <= self.crop[1] <= 1:
            raise ValueError(f"crop is {self.crop!r}; it must be two shares above 0 and up to 1, the smaller one first")
        for name in ("flip", "brightness", "contrast", "saturation"):
            value = getattr(self, name)
            if not _is_number(value):
                raise TypeError(f"{name} is {value!r}; it must be a number from 0 to 1")
            if not 0 <= value <= 1:
                raise ValueError(f"{name} is {value}; it must be from 0 to 1")

    def apply(
        self, image: Image.Image, size: tuple[int, int], draws: npt.NDArray[np.float64], resample: int
    ) -> Image.Image:
        """The image, changed.

        Args:
            image: in RGB.
            size: height and width of what comes out.
            draws: eight numbers, each uniform on [0, 1).
            resample: Pillow's filter for scaling.
        """
        from PIL import Image

        height, width = size
        enlarged = image.width * image.height < width * height
        box = self._box(image.size, draws[:4])
        made = self._recolored(image, draws[5:]) if enlarged else image
        made = made.resize((width, height), Image.Resampling(resample), box=box, reducing_gap=2.0)
        if draws[4] < self.flip:
            made = made.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return made if enlarged else self._recolored(made, draws[5:])

    def _box(self, size: tuple[int, int], draws: npt.NDArray[np.float64]) -> tuple[float, float, float, float]:
        """Left, top, right and bottom of the crop, in fractions of pixels."""
        width, height = size
        area = width * height * (self.crop[0] + draws[0] * (self.crop[1] - self.crop[0]))
        low, high = map(math.log, _RATIOS)
        ratio = math.exp(low + draws[1] * (high - low))
        across, down = min(width, math.sqrt(area * ratio)), min(height, math.sqrt(area / ratio))
        left, top = draws[2] * (width - across), draws[3] * (height - down)
        return left, top, min(width, left + across), min(height, top + down)

    def _recolored(self, image: Image.Image, draws: npt.NDArray[np.float64]) -> Image.Image:
        """The image after the three factors: a matrix of 3 × 3 and a constant, rounded and cut off once."""
        spreads = (self.brightness, self.contrast, self.saturation)
        if not any(spreads):
            return image
        factors = (1 + spread * (2 * draw - 1) for spread, draw in zip(spreads, draws.tolist(), strict=True))
        brightness, contrast, saturation = factors
        constant = (1 - contrast) * brightness * float(np.asarray(image.convert("L")).mean())
        matrix: list[float] = []
        for channel in range(3):
            shares = [(1 - saturation) * gray for gray in _GRAY]
            shares[channel] += saturation
            matrix += [*(brightness * contrast * share for share in shares), constant]
        return image.convert("RGB", tuple(matrix))


def draws_of(seed: int, epoch: int, row: int) -> npt.NDArray[np.float64]:
    """The eight numbers that ``Augmentation.apply`` takes, which follow from seed, epoch and row alone."""
    return np.random.default_rng([seed, epoch, row, _IMAGES]).random(8)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
