"""Damaged and foreign files for as long as one likes: ``python tests/fuzz.py decoder|index --minutes 10``.

The same properties as in test_images.py and test_index_damage.py, on examples without end. It stops with a traceback at
the first example that breaks one, and else says how many there were.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import tempfile
import time
from collections import Counter
from io import BytesIO
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from PIL import Image

from lbhash.codes.io import CodeTable
from lbhash.data.images.decoding import FORMATS, decode_image
from lbhash.index import build_index, open_index

MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16", "F")
ROUND = 200


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """A file with bytes changed, cut off, doubled, left out or put in."""
    content = bytearray(whole)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, max(0, len(content) - 1)))
        size = draw(st.integers(1, 64))
        how = draw(st.sampled_from(["flip", "flip", "set", "cut", "double", "drop", "insert"]))
        if how == "flip" and content:
            content[at] ^= draw(st.integers(1, 255))
        elif how == "set":
            content[at : at + size] = bytes([draw(st.sampled_from([0, 1, 127, 128, 255]))]) * size
        elif how == "cut":
            del content[at:]
        elif how == "double":
            content[at:at] = content[at : at + size]
        elif how == "drop":
            del content[at : at + size]
        elif how == "insert":
            content[at:at] = draw(st.binary(min_size=1, max_size=16))
    return bytes(content)


def images() -> list[bytes]:
    """A small image in every format and every mode that it can hold."""
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


def fuzz_decoder(minutes: float) -> Counter[str]:
    """Whatever comes is an image in RGB within a second, or one line of ``ValueError``."""
    whole, found = images(), Counter[str]()

    def decodes(data: st.DataObject) -> None:
        content = data.draw(st.one_of(damaged(data.draw(st.sampled_from(whole))), st.binary(max_size=400)))
        started = time.process_time()
        try:
            image = decode_image(content, max_pixels=1_000_000)
        except ValueError as refused:
            _check_line(refused)
            found["refused"] += 1
        else:
            assert image.mode == "RGB"
            assert image.width * image.height <= 1_000_000
            found["decoded"] += 1
        assert time.process_time() - started < 2

    _repeat(decodes, minutes)
    return found


def fuzz_index(minutes: float) -> Counter[str]:
    """A folder with damage in one file is refused in one line, at opening, use or verification, or answers rightly."""
    rng, found = np.random.default_rng(0), Counter[str]()
    with tempfile.TemporaryDirectory() as temporary:
        sources = []
        for kind in ("flat", "mih", "ivf", "hnsw"):
            codes = rng.integers(0, 256, (1200, 4), dtype=np.uint8)
            table = CodeTable(codes, 32, rng.permutation(4000)[:1200], rng.integers(0, 3, 1200))
            index = build_index(table, Path(temporary) / kind, kind)
            index.remove(table.rows[:40])
            sources.append((Path(temporary) / kind, codes[:3], index.search(codes[:3], 5)))

        def opens(data: st.DataObject) -> None:
            source, queries, expected = data.draw(st.sampled_from(sources))
            copy = Path(temporary) / "copy"
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(source, copy)
            name = data.draw(st.sampled_from(sorted(f.name for f in source.iterdir() if f.suffix != ".lock")))
            (copy / name).write_bytes(data.draw(damaged((copy / name).read_bytes())))
            try:
                index = open_index(copy)
                answer = index.search(queries, 5)
                index.attributes_of(answer.ids[0])
                index.verify()
            except ValueError as refused:
                _check_line(refused)
                found["refused"] += 1
            else:
                np.testing.assert_array_equal(answer.ids, expected.ids)
                found["unharmed"] += 1

        _repeat(opens, minutes)
    return found


def _check_line(refused: ValueError) -> None:
    assert len(str(refused).splitlines()) == 1


def _repeat(test, minutes: float) -> None:
    ends, number = time.monotonic() + 60 * minutes, 0
    many = settings(
        max_examples=ROUND,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    while time.monotonic() < ends:
        seed(number)(many(given(st.data())(test)))()
        number += 1


def main() -> None:
    """Fuzz, say what was met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("decoder", "index"))
    parser.add_argument("--minutes", type=float, default=10)
    given_ = parser.parse_args()
    found = {"decoder": fuzz_decoder, "index": fuzz_index}[given_.what](given_.minutes)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    said = ", ".join(f"{count:,} {name}" for name, count in sorted(found.items()))
    print(f"{given_.what}: {found.total():,} examples in {given_.minutes:g} minutes, {said}; {peak:.0f} MiB at most")


if __name__ == "__main__":
    main()
