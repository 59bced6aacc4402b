"""Decode images from bytes that may come from a stranger."""

from __future__ import annotations

import os
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from lbhash.utils.formatting import one_line
from lbhash.utils.paths import no_file

if TYPE_CHECKING:
    from PIL import Image

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
"""The formats that are read. Pillow knows many more, but each exposes more code to a stranger's file."""

MAX_BYTES = 32 * 2**20
MAX_PIXELS = 50_000_000

_LONGEST = 50
"""How many times as long as wide an image may be: backbones enlarge its shorter side to 224 pixels or so."""

THUMBNAIL_SIDE = 256
"""Pixels of the longer side of a thumbnail."""

_MAY_BE = f"it must be an image in one of the formats {', '.join(FORMATS)}"
_SCANS = 100  # limit for a JPEG; a progressive one has about ten, and each costs a pass over all pixels


def decode_image(
    data: bytes | bytearray | memoryview,
    *,
    max_bytes: int = MAX_BYTES,
    max_pixels: int = MAX_PIXELS,
    name: str = "image",
) -> Image.Image:
    """Return the image that a file holds, upright and in RGB.

    Size and format are read from the header and checked before anything is decoded. The first frame of an animation is
    taken, the orientation of EXIF is applied, and transparent pixels are laid on white. 16-bit gray values are divided
    by 257. The range of 32-bit ones is in no header: they are stretched from their smallest to their largest.

    Raises ``ValueError`` if ``data`` is not a complete file of one of ``FORMATS``, or exceeds ``max_bytes`` or
    ``max_pixels`` (width × height), or is more than 50 times as long as wide.
    """
    from PIL import Image

    data = bytes(data)
    if not data:
        raise ValueError(f"{name} is empty; {_MAY_BE}")
    if len(data) > max_bytes:
        raise ValueError(f"{name} has {len(data):,} bytes; it may have at most {max_bytes:,}")
    if data.startswith(b"\xff\xd8") and data.count(b"\xff\xda") > _SCANS:
        raise ValueError(f"{name} is a JPEG of more than {_SCANS} scans, which no camera or program writes; {_MAY_BE}")
    try:
        image = Image.open(BytesIO(data), formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ValueError(f"{name} has too many pixels; it may have at most {max_pixels:,}") from None
    except Exception:  # malformed headers can raise nearly any exception
        raise ValueError(f"{name} is not an image, or is damaged from its first bytes on; {_MAY_BE}") from None
    decoded = _upright(image, max_pixels, name)
    decoded.info = {}
    return decoded


def read_file(path: str | os.PathLike[str], name: str) -> bytes:
    """Return the bytes of an image file; ``ValueError`` if it cannot be read, or has more than ``MAX_BYTES``."""
    try:
        if (what := no_file(path)) not in ("", "nothing"):
            raise ValueError(f"{name} cannot be read: it is {what}")
        with open(path, "rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            if size > MAX_BYTES:
                raise ValueError(f"{name} has {size:,} bytes; it may have at most {MAX_BYTES:,}")
            return opened.read()
    except OSError as error:
        raise ValueError(f"{name} cannot be read: {error.strerror}") from None


def as_image(image: Any, name: str = "image") -> Image.Image:
    """Return a PIL image, or the image of a path or of bytes, upright and in RGB, as ``decode_image`` does.

    Raises ``TypeError`` for anything else, and the errors of ``decode_image``.
    """
    from PIL import Image

    if isinstance(image, (str, os.PathLike)):
        name = f"image {str(image)!r}"
        return decode_image(read_file(image, name), name=name)
    if isinstance(image, (bytes, bytearray, memoryview)):
        return decode_image(image, name=name)
    if not isinstance(image, Image.Image):
        what = "a PIL image (of an array, Image.fromarray makes one), or the path or the bytes of an image file"
        raise TypeError(f"{name} is of type {type(image).__name__}; it must be {what}")
    return _upright(image, MAX_PIXELS, name)


def _upright(image: Image.Image, max_pixels: int, name: str) -> Image.Image:
    """Return an opened image decoded, upright and in RGB; raises ``ValueError`` if it is too large or damaged."""
    from PIL import ExifTags, ImageOps

    width, height = image.size
    said = f"{name} has {width:,} × {height:,} pixels"
    if not 0 < width * height <= max_pixels:
        raise ValueError(f"{said}; it may have at most {max_pixels:,}" if width * height else f"{said}, none at all")
    if max(width, height) > _LONGEST * min(width, height):
        raise ValueError(f"{said}; it may be at most {_LONGEST} times as long as wide")
    try:
        image.load()
        decoded = _rgb(image)
    except MemoryError:
        raise
    except Exception as error:  # malformed files can raise nearly any exception
        what = f"is a damaged or truncated {image.format}" if image.format else "cannot be turned into RGB"
        raise ValueError(f"{name} {what}: {one_line(error)}") from None
    try:
        orientation = image.getexif().get(ExifTags.Base.Orientation, 1)  # the conversion may have dropped it
        if orientation == 1:
            return decoded
        bare = decoded.copy()
        bare.info = {}
        bare.getexif()[ExifTags.Base.Orientation] = orientation
        return ImageOps.exif_transpose(bare)
    except Exception:  # only the EXIF is damaged
        return decoded


def _rgb(image: Image.Image) -> Image.Image:
    from PIL import Image

    if image.mode == "F" or image.mode.startswith("I"):
        return _eight_bits(image).convert("RGB")
    if image.mode == "RGB" and not image.has_transparency_data:
        return image
    if image.has_transparency_data:
        seen = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", seen.size, "white"), seen).convert("RGB")
    return image.convert("RGB")


def _eight_bits(image: Image.Image) -> Image.Image:
    """Return gray values of 16 or 32 bits as 8 bits."""
    from PIL import Image

    values = np.asarray(image)
    if image.mode.startswith("I;16"):
        return Image.fromarray((values.astype(np.float32) / 257).round().astype(np.uint8))
    if not np.isfinite(values).all():
        raise ValueError("a pixel is NaN or infinite")
    least, most = float(values.min()), float(values.max())
    if image.mode == "I" and least >= 0 and image.format == "PNG":  # 16 bits, widened by older versions of Pillow
        least, most = 0.0, 65535.0
    spread = (values.astype(np.float64) - least) / max(most - least, np.finfo(np.float64).tiny)
    return Image.fromarray((255 * spread).round().astype(np.uint8))


def thumbnail_of(image: Image.Image) -> bytes:
    """Shrink an image in place and return it as a WebP file of at most ``THUMBNAIL_SIDE`` pixels a side."""
    image.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
    file = BytesIO()
    image.save(file, "WEBP", quality=85)
    return file.getvalue()
