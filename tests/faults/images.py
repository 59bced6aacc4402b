"""Mutated images: whatever comes is an image in RGB, or one line."""

from __future__ import annotations

import json
import random
import time
from io import BytesIO

import numpy as np
from PIL import Image
from tests.faults.attack import Run, attack
from tests.faults.flips import damage
from tests.faults.program import Program

from lbhash.data.images.decoding import FORMATS, decode_image

MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "F")
AT_ONCE = 50
"""Images that one child decodes."""
SECONDS, PIXELS = 2, 1_000_000


@attack("images", "images of all formats and modes with damage, and random bytes, decoded")
def images(run: Run) -> None:
    program, whole = Program(run.folder / "cache"), small_images()
    for rng in run.faults():
        done = program.call(decode_some, whole, rng.random())
        if done.status:
            run.count("crashed", done.crash or done.line)
            continue
        for outcome, what in json.loads(done.out):
            run.count(outcome, what)


def decode_some(whole: list[bytes], seed: float) -> list[tuple[str, str]]:
    """Decode images with damage, and return what came of each."""
    rng, found = random.Random(seed), []
    for number in range(AT_ONCE):
        content = rng.choice([*whole, rng.randbytes(rng.randint(1, 400))])
        for _ in range(rng.randint(1, 6)):
            content = damage(content, rng)[0] or b"\0"
        started = time.process_time()
        try:
            image = decode_image(content, max_pixels=PIXELS)
        except ValueError as refused:
            found.append(("refused", "") if len(str(refused).splitlines()) == 1 else ("crashed", str(refused)))
        else:
            right = image.mode == "RGB" and image.width * image.height <= PIXELS
            found.append(("survived", "") if right else ("wrong", f"seed {seed}, {number}: {image.mode} {image.size}"))
        if time.process_time() - started > SECONDS:
            found[-1] = ("crashed", f"seed {seed}, {number}: it took {time.process_time() - started:.1f} s")
    return found


def small_images() -> list[bytes]:
    """Return a small image in every format and every mode that it can hold."""
    pixels = np.random.default_rng(0).integers(0, 256, (19, 23, 3)).astype(np.uint8)
    made = []
    for form in FORMATS:
        for mode in MODES:
            try:
                image = Image.fromarray(pixels).convert("L" if mode == "I;16" else mode)
                if mode == "I;16":
                    image = Image.fromarray(pixels[..., 0].astype(np.uint16) * 257)
                file = BytesIO()
                image.save(file, form, **({"progressive": True} if form == "JPEG" and mode == "L" else {}))
            except (OSError, ValueError):
                continue
            made.append(file.getvalue())
    return made
