"""From decoded images to the tensors that a backbone takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lbhash.utils.formatting import one_line

if TYPE_CHECKING:
    from PIL import Image
    from torch import Tensor


def preprocess(processor: Any, images: list[Image.Image], name: str) -> Tensor:
    """Return images, in RGB, as a backbone of that name and image processor takes them, ``[n, channels, h, w]``."""
    try:
        values = processor(images, return_tensors="pt")["pixel_values"]
    except (TypeError, ValueError) as error:
        raise ValueError(f"the preprocessing of backbone {name!r} failed: {one_line(error)}") from None
    if values.ndim != 4:
        said = f"the preprocessing of backbone {name!r} gives {list(values.shape)}"
        raise ValueError(f"{said}; it must give images of one size, [n, channels, height, width]")
    return values
