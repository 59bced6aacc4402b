"""Printed characters, drawn with matplotlib's fonts: forty classes that need no file and no network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lbhash.data.table import EmbeddingTable
from lbhash.utils.system import package_folder

if TYPE_CHECKING:
    from PIL.Image import Image

CHARACTERS = "23456789ABDEFGHJKLMNPQRTWYΔΘΛΞΠΣΦΨΩ&@#?%"
"""Characters that a person can tell apart in every font; 0 and O, 1, I and l, c and C are left out."""
FONTS = [f"DejaVuSans{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")]
FONTS += [f"DejaVuSansMono{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")]
FONTS += [f"DejaVuSerif{style}" for style in ("", "-Bold", "-Italic", "-BoldItalic")]
FONTS += [f"STIXGeneral{style}" for style in ("", "Bol", "Italic", "BolIta")]
TIMES = 5  # drawings of each character in each font
SIDE, CELL = 28, 56  # pixels a side: of a picture, and of the glyph that is scaled down to it


def characters() -> EmbeddingTable:
    """3,200 gray pictures of 40 printed characters, as ``uint8 [3200, 784]``: 28 × 28 values, 255 for full ink.

    Each character is drawn 5 times in each of 16 fonts, as a scanner might see it: slightly shifted, turned, slanted,
    scaled, blurred, faint and noisy. The class names are the characters. The same versions of NumPy, Pillow and
    matplotlib give the same bytes. Other versions may change gray values slightly, but not the rows or their order.
    """
    rng = np.random.default_rng(0)
    pictures = [_scanned(glyph, rng) for glyph in _glyphs() for _ in range(TIMES)]
    labels = np.tile(np.repeat(np.arange(len(CHARACTERS)), TIMES), len(FONTS))
    rows = np.stack(pictures).reshape(len(labels), SIDE * SIDE)
    return EmbeddingTable(rows, labels, "characters", class_names=tuple(CHARACTERS), protocol="characters")


def _glyphs() -> list[Image]:
    """Return each character in each font as an image of ``CELL`` × ``CELL`` pixels, white on black, on one baseline."""
    from PIL import Image as images
    from PIL import ImageDraw, ImageFont

    glyphs = []
    folder = package_folder("matplotlib", "data is 'characters', which") / "mpl-data" / "fonts" / "ttf"
    for name in FONTS:
        file = str(folder / f"{name}.ttf")
        font = ImageFont.truetype(file, 40, layout_engine=ImageFont.Layout.BASIC)
        for character in CHARACTERS:
            glyphs.append(images.new("L", (CELL, CELL)))
            ImageDraw.Draw(glyphs[-1]).text((CELL / 2, 40), character, 255, font, anchor="ms")
    return glyphs


def _scanned(glyph: Image, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Return a glyph as a scanner may see it, ``uint8 [SIDE, SIDE]``."""
    from PIL import Image as images
    from PIL import ImageFilter

    angle, slant = np.radians(rng.normal(0, 2)), rng.normal(0, 0.06)
    turned = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    matrix = turned @ [[1, slant], [0, 1]] * (CELL / SIDE / rng.uniform(0.92, 1.05, (2, 1)))
    offset = CELL / 2 - matrix @ (SIDE / 2 + rng.uniform(-1, 1, 2))
    blurred = glyph.filter(ImageFilter.GaussianBlur(rng.uniform(0.6, 1.8)))
    picture = blurred.transform(
        (SIDE, SIDE), images.Transform.AFFINE, np.c_[matrix, offset].ravel().tolist(), images.Resampling.BILINEAR
    )
    ink, paper, noise = rng.uniform(0.6, 1), rng.uniform(0, 25), rng.normal(0, rng.uniform(3, 15), (SIDE, SIDE))
    return np.clip(np.asarray(picture) * ink + paper + noise, 0, 255).astype(np.uint8)
