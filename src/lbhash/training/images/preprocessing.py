"""The preprocessing of a backbone: the size of the images that come out of it, another size, and its pixel values."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.data.images.preprocessing import preprocess
from lbhash.models.backbone import Backbone
from lbhash.utils.validation import check_int

_PROBES = ((64, 48), (300, 400))  # images of no common shape


def input_size(backbone: Backbone) -> tuple[int, int]:
    """Height and width of what the preprocessing makes of any image.

    Raises:
        ValueError: they depend on the image.
    """
    found = _size(backbone.processor, backbone.name)
    if found is None:
        raise ValueError(
            f"the preprocessing of backbone {backbone.name!r} leaves images in sizes of their own; give image_size, "
            "the side of the squares that it is to make of them"
        )
    return found


def resized(backbone: Backbone, side: int) -> Backbone:
    """The backbone with a preprocessing that makes squares of another size, in its own way.

    All sizes that it knows change in proportion: of 224 pixels cut from the middle of 256, 96 become 96 of 110. A
    preprocessing that leaves images as large as they are scales them to the square.

    Args:
        backbone: it shares the model with what is returned.
        side: of the squares, in pixels.

    Raises:
        TypeError: ``side`` is not an integer.
        ValueError: it is below 1, the preprocessing cannot make such squares, or the model cannot take them.
    """
    side = check_int(side, "image_size", 1)
    processor = _processor_of(backbone, side)
    if processor is None:
        raise ValueError(
            f"image_size is {side}, and the preprocessing of backbone {backbone.name!r}, a "
            f"{type(backbone.processor).__name__}, cannot make squares of that size"
        )
    made = Backbone(backbone.model, processor, backbone.name)
    try:
        made.dim  # noqa: B018, a pass through the model
    except (AssertionError, IndexError, RuntimeError, TypeError, ValueError) as error:
        line = " ".join(str(error).split())
        raise ValueError(
            f"image_size is {side}, which backbone {backbone.name!r}, a {type(backbone.model).__name__}, cannot take: "
            f"{line}"
        ) from None
    return made


class PixelValues:
    """What a preprocessing does to the values of pixels once their places are settled: scaling, mean and deviation.

    It is asked once for all values of each channel, and what it says is looked up from then on: the same numbers, in a
    fraction of the time.

    Args:
        backbone: whose preprocessing.

    Raises:
        ValueError: the preprocessing does not take each channel on its own.
    """

    def __init__(self, backbone: Backbone) -> None:
        ramp = np.zeros((3, 256, 8, 3), np.uint8)  # of each channel, an image in which it alone rises
        for channel in range(3):
            ramp[channel, :, :, channel] = np.arange(256)[:, None]
        from PIL import Image

        values = _without_scaling(backbone, [Image.fromarray(image) for image in ramp])
        if values is None or (values != values[..., :1]).any():
            raise _not_separable(backbone)
        said = values[..., 0]  # [image, channel, value]
        self.sources: list[int] = []
        rows = []
        for channel in range(3):
            rising = [at for at in range(3) if (said[at, channel] != said[at, channel, 0]).any()]
            if len(rising) != 1:
                raise _not_separable(backbone)
            self.sources += rising
            rows.append(said[rising[0], channel])
        self.table = np.stack(rows)

    def __call__(self, pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Of images ``uint8 [n, height, width, 3]``, what the model takes, in that layout: ``float32``."""
        made = np.empty(pixels.shape, np.float32)
        for channel, source in enumerate(self.sources):
            made[..., channel] = self.table[channel][pixels[..., source]]
        return made


def _not_separable(backbone: Backbone) -> ValueError:
    return ValueError(
        f"the preprocessing of backbone {backbone.name!r}, a {type(backbone.processor).__name__}, does more than scale "
        "images and their channels, which augmented ones could not be given; train without augmentation"
    )


def _without_scaling(backbone: Backbone, images: list[Any]) -> npt.NDArray[np.float32] | None:
    """What the preprocessing makes of images that it leaves as large as they are; ``None`` where it does not."""
    processor = copy.deepcopy(backbone.processor)
    for step in ("do_resize", "do_center_crop", "do_pad"):
        if getattr(processor, step, None):
            setattr(processor, step, False)
    try:
        made = preprocess(processor, images, backbone.name).numpy().astype(np.float32)
    except ValueError:
        return None
    width, height = images[0].size
    return made if made.shape == (len(images), 3, height, width) else None


def _size(processor: Any, name: str) -> tuple[int, int] | None:
    """Height and width of what comes out; ``None`` where they depend on the image."""
    from PIL import Image

    shapes = {
        tuple(preprocess(processor, [Image.new("RGB", (width, height))], name).shape[2:]) for height, width in _PROBES
    }
    return shapes.pop() if len(shapes) == 1 else None  # type: ignore[return-value]


def _processor_of(backbone: Backbone, side: int) -> Any:
    """The processor with sizes for these squares; ``None`` where there is no such."""
    now = _size(backbone.processor, backbone.name)
    if now == (side, side):
        return backbone.processor
    if now is not None:
        ways: list[dict[str, Any]] = [_in_proportion(backbone.processor, side / now[0], side / now[1])]
    else:
        whole = {"do_resize": True, "do_center_crop": False}
        ways = [whole | {"size": {"height": side, "width": side}}, whole | {"size": {"shortest_edge": side}}]
    for way in ways:
        made = copy.deepcopy(backbone.processor)
        for name, value in way.items():
            setattr(made, name, value)
        try:
            if _size(made, backbone.name) == (side, side):
                return made
        except (AttributeError, ValueError):  # some processors of transformers trip over their own message
            continue
    return None


def _in_proportion(processor: Any, down: float, across: float) -> dict[str, Any]:
    """The sizes of a processor, changed by these factors."""
    factors = {"height": down, "width": across}
    return {
        name: {edge: round(length * factors.get(edge, max(down, across))) for edge, length in dict(sizes).items()}
        for name in ("size", "crop_size")
        if (sizes := getattr(processor, name, None))
    }
