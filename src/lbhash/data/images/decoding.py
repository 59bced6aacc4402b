"""Decoding of images, from bytes that may come from a stranger."""

from __future__ import annotations

import os
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from lbhash.utils.formatting import one_line

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
"""The formats that are read. Pillow knows many more, but each is more code that a stranger's file can reach."""

MAX_BYTES = 32 * 2**20
MAX_PIXELS = 50_000_000

_MAY_BE = f"it must be an image in one of the formats {', '.join(FORMATS)}"
_SCANS = 100  # of a JPEG; a progressive one has about ten, and each costs a pass over all pixels


def decode_image(
    data: bytes, *, max_bytes: int = MAX_BYTES, max_pixels: int = MAX_PIXELS, name: str = "image"
) -> Image.Image:
    """Return the image that a file holds, upright and in RGB.

    Size and format are read from the header and checked before anything is decoded. The first frame of an animation is
    taken, the orientation of EXIF is applied, and transparent pixels are laid on white. 16-bit gray values are divided
    by 257; 32-bit ones, whose range no header gives, are stretched from their smallest to their largest.

    Raises ``TypeError`` if ``data`` is not bytes, and ``ValueError`` if it is no whole file of one of ``FORMATS``, or
    has more than ``max_bytes``, or more than ``max_pixels`` of width × height.
    """
    from PIL import ExifTags, Image, ImageOps

    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"{name} is of type {type(data).__name__}; it must be the bytes of an image")
    data = bytes(data)
    if not data:
        raise ValueError(f"{name} is empty; {_MAY_BE}")
    if len(data) > max_bytes:
        raise ValueError(f"{name} has {len(data):,} bytes; it may have {max_bytes:,} at most")
    if data.startswith(b"\xff\xd8") and data.count(b"\xff\xda") > _SCANS:
        raise ValueError(f"{name} is a JPEG of more than {_SCANS} scans, which no camera or program writes; {_MAY_BE}")
    try:
        image = Image.open(BytesIO(data), formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ValueError(f"{name} has too many pixels; it may have {max_pixels:,} at most") from None
    except Exception:  # a header that lies leads Pillow's readers to nearly any exception
        raise ValueError(f"{name} is no image, or damaged from its first bytes on; {_MAY_BE}") from None
    width, height = image.size
    if width * height > max_pixels:
        raise ValueError(f"{name} has {width:,} × {height:,} pixels; it may have {max_pixels:,} at most")
    try:
        image.load()
        decoded = _rgb(image)
    except MemoryError:
        raise
    except Exception as error:  # as above, of the pixels
        raise ValueError(f"{name} is a damaged or truncated {image.format}: {one_line(error)}") from None
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation, 1)  # which the conversion may have left behind
        decoded.info = {}
        decoded.getexif()[ExifTags.Base.Orientation] = orientation
        return ImageOps.exif_transpose(decoded)
    except Exception:  # the pixels are sound, and only their EXIF is not
        return decoded


def read_file(path: str | os.PathLike[str], name: str) -> bytes:
    """Return the bytes of an image file; ``ValueError`` if there are more than ``MAX_BYTES``."""
    with open(path, "rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        if size > MAX_BYTES:
            raise ValueError(f"{name} has {size:,} bytes; it may have {MAX_BYTES:,} at most")
        return opened.read()


def as_image(image: Any, name: str = "image") -> Image.Image:
    """Return an image in RGB, of a PIL image, a path or what ``decode_image`` takes, with its errors."""
    from PIL import Image

    if isinstance(image, (str, os.PathLike)):
        name = f"image {str(image)!r}"
        try:
            image = read_file(image, name)
        except OSError as error:
            raise ValueError(f"{name} cannot be read: {error.strerror}") from None
    if not isinstance(image, Image.Image):
        return decode_image(image, name=name)
    try:
        return image if image.mode == "RGB" else _rgb(image)
    except ValueError as error:
        raise ValueError(f"{name} cannot be turned into RGB: {error}") from None


def _rgb(image: Image.Image) -> Image.Image:
    from PIL import Image

    if image.mode == "F" or image.mode.startswith("I"):
        return _eight_bits(image).convert("RGB")
    if image.has_transparency_data:
        seen = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", seen.size, "white"), seen).convert("RGB")
    return image.convert("RGB")


def _eight_bits(image: Image.Image) -> Image.Image:
    """Return gray values of 16 or 32 bits as 8."""
    from PIL import Image

    values = np.asarray(image)
    if image.mode.startswith("I;16"):
        return Image.fromarray((values.astype(np.float32) / 257).round().astype(np.uint8))
    if not np.isfinite(values).all():
        raise ValueError("a pixel is NaN or infinite")
    least, most = float(values.min()), float(values.max())
    if image.mode == "I" and least >= 0 and image.format == "PNG":  # 16 bits, which older versions of Pillow widen
        least, most = 0.0, 65535.0
    spread = (values.astype(np.float64) - least) / max(most - least, np.finfo(np.float64).tiny)
    return Image.fromarray((255 * spread).round().astype(np.uint8))
