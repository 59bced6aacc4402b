"""The preprocessing of a backbone: its output size, another size, and its pixel values."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.data.images.loading import preprocess
from lbhash.models.backbone import Backbone
from lbhash.utils.validation import check_int, refusing

_PROBES = ((64, 48), (300, 400))  # two different shapes


def input_size(backbone: Backbone) -> tuple[int, int]:
    """Return the height and width of preprocessed images; ``ValueError`` if they depend on the image."""
    found = _size(backbone.processor, backbone.name)
    if found is None:
        said = f"the preprocessing of backbone {backbone.name!r} leaves images in sizes of their own"
        raise ValueError(f"{said}; give image_size, the side of the squares to make")
    return found


def resized(backbone: Backbone, side: int) -> Backbone:
    """Return the backbone with a preprocessing that makes squares of ``side`` pixels; the model is shared.

    All sizes of the preprocessing change in proportion: for side 96, a crop of 224 pixels from 256 becomes a crop of 96
    from 110. A preprocessing that keeps images' sizes then scales them to the square. Raises ``ValueError`` if the
    preprocessing cannot make such squares, or the model cannot take them.
    """
    side = check_int(side, "image_size", 1)
    processor = _resized_processor(backbone, side)
    if processor is None:
        said = f"the preprocessing of backbone {backbone.name!r}, a {type(backbone.processor).__name__}"
        raise ValueError(f"image_size is {side}; {said}, cannot make squares of that size")
    made = Backbone(backbone.model, processor, backbone.name)
    said = f"image_size is {side}, which backbone {backbone.name!r}, a {type(backbone.model).__name__}, cannot take"
    with refusing(said, AssertionError, IndexError, RuntimeError, TypeError, ValueError):
        made.dim  # noqa: B018, a pass through the model
    return made


class PixelValues:
    """How a preprocessing changes pixel values (factor, mean, deviation) after scaling and cropping an image.

    The preprocessing is applied once to all values of each channel. Then a table gives the same numbers in a fraction
    of the time. Raises ``ValueError`` if the preprocessing mixes channels.
    """

    def __init__(self, backbone: Backbone) -> None:
        from PIL import Image

        rising = np.broadcast_to(np.arange(256, dtype=np.uint8)[:, None], (256, 8))
        ramp = np.eye(3, dtype=np.uint8)[:, None, None] * rising[..., None]  # one image per channel, varying only there
        processor = copy.deepcopy(backbone.processor)
        for step in ("do_resize", "do_center_crop", "do_pad"):
            if getattr(processor, step, None):
                setattr(processor, step, False)
        try:
            images = [Image.fromarray(image) for image in ramp]
            values = preprocess(processor, images, backbone.name).numpy().astype(np.float32)
        except ValueError:
            values = np.empty(0, np.float32)
        separable = values.shape == (3, 3, 256, 8) and (values == values[..., :1]).all()
        if separable:
            values = values[..., 0]  # [image, channel, value]
            rises = (values != values[:, :, :1]).any(axis=2)
            separable = (rises.sum(axis=0) == 1).all()
        if not separable:
            said = f"the preprocessing of backbone {backbone.name!r}, a {type(backbone.processor).__name__}"
            raise ValueError(
                f"{said}, does more than scale images and their channels, so it cannot follow augmentation; "
                "train without augmentation"
            )
        self.sources = rises.argmax(axis=0)  # image channel of each model channel
        self.table = values[self.sources, np.arange(3)]

    def __call__(self, pixels: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Return the model's input for images ``uint8 [n, height, width, 3]``: ``float32`` in the same layout."""
        made = np.empty(pixels.shape, np.float32)
        for channel, source in enumerate(self.sources):
            made[..., channel] = self.table[channel][pixels[..., source]]
        return made


def _size(processor: Any, name: str) -> tuple[int, int] | None:
    """Return the height and width of the output; ``None`` if they depend on the image."""
    from PIL import Image

    images = [Image.new("RGB", size) for size in _PROBES]
    shapes = {tuple(preprocess(processor, [image], name).shape[2:]) for image in images}
    return shapes.pop() if len(shapes) == 1 else None  # type: ignore[return-value]


def _resized_processor(backbone: Backbone, side: int) -> Any:
    """Return the processor with sizes for these squares; ``None`` if it cannot make them."""
    ways: list[dict[str, Any]]
    now = _size(backbone.processor, backbone.name)
    if now == (side, side):
        return backbone.processor
    if now is None:
        whole = {"do_resize": True, "do_center_crop": False}
        ways = [whole | {"size": {"height": side, "width": side}}, whole | {"size": {"shortest_edge": side}}]
    else:
        factors = {"height": side / now[0], "width": side / now[1]}
        largest = max(factors.values())
        ways = [{}]
        for name in ("size", "crop_size"):
            edges = dict(getattr(backbone.processor, name, None) or {})
            if edges:
                ways[0][name] = {edge: round(length * factors.get(edge, largest)) for edge, length in edges.items()}
    for way in ways:
        made = copy.deepcopy(backbone.processor)
        for name, value in way.items():
            setattr(made, name, value)
        try:
            if _size(made, backbone.name) == (side, side):
                return made
        except (AttributeError, ValueError):  # some processors of transformers fail in their own error message
            continue
    return None
