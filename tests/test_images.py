from __future__ import annotations

import re
import struct
import zlib
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import ExifTags, Image

from lbhash.data.images.decoding import FORMATS, as_image, decode_image


def encoded(image, form="PNG", **options):
    held = BytesIO()
    image.save(held, form, **options)
    return held.getvalue()


def gradient(width=24, height=16):
    """An image whose four corners differ, and whose rows and columns do."""
    x, y = np.meshgrid(np.linspace(0, 255, width), np.linspace(0, 255, height))
    return Image.fromarray(np.stack([x, y, 255 - (x + y) / 2], axis=2).astype(np.uint8))


def pixels(image):
    return np.asarray(image).astype(int)


@pytest.mark.parametrize("form", FORMATS)
def test_every_format(form):
    options = {"WEBP": {"lossless": True}, "JPEG": {"quality": 98, "subsampling": 0}}.get(form, {})
    source = gradient()
    decoded = decode_image(encoded(source, form, **options))
    assert (decoded.mode, decoded.size) == ("RGB", source.size)
    tolerance = {"JPEG": 6, "GIF": 26}.get(form, 0)  # GIF has 256 colors
    assert np.abs(pixels(decoded) - pixels(source)).max() <= tolerance


def test_another_format_is_refused():
    with pytest.raises(ValueError, match=r"^image is not an image, or is damaged .* formats JPEG, PNG, WEBP, GIF, BMP"):
        decode_image(encoded(gradient(), "PDF"))


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_unreadable_exif_turns_nothing():
    data = encoded(gradient(), "JPEG", exif=b"Exif\0\0MM\0\x2a\xff\xff\xff\xff")
    assert decode_image(data).size == (24, 16)


def test_the_first_frame_of_an_animation():
    frames = [Image.new("RGB", (8, 8), color) for color in ("red", "green", "blue")]
    for form, options in (("GIF", {}), ("WEBP", {"lossless": True}), ("PNG", {}), ("TIFF", {})):
        data = encoded(frames[0], form, save_all=True, append_images=frames[1:], **options)
        assert pixels(decode_image(data))[0, 0].tolist() == [255, 0, 0]


def test_what_is_transparent_lies_on_white():
    image = Image.new("RGBA", (2, 1), (0, 0, 0, 0))
    image.putpixel((1, 0), (10, 20, 30, 255))
    for form in ("PNG", "WEBP", "TIFF"):
        decoded = decode_image(encoded(image, form, **({"lossless": True} if form == "WEBP" else {})))
        assert pixels(decoded).tolist() == [[[255, 255, 255], [10, 20, 30]]]
    half = Image.new("LA", (1, 1), (0, 128))
    assert pixels(decode_image(encoded(half)))[0, 0, 0] == 127


def test_gray_of_16_bits_is_divided_by_257_and_of_32_bits_stretched():
    for form in ("PNG", "TIFF"):
        values = np.array([[0, 257, 257 * 128, 65535]], np.uint16)
        assert pixels(decode_image(encoded(Image.fromarray(values), form)))[0, :, 0].tolist() == [0, 1, 128, 255]
    for kind in (np.int32, np.float32):
        values = np.array([[-100, 0, 100]], kind)
        assert pixels(decode_image(encoded(Image.fromarray(values), "TIFF")))[0, :, 0].tolist() == [0, 128, 255]
        assert not pixels(decode_image(encoded(Image.fromarray(np.full((2, 2), 7, kind)), "TIFF"))).any()


@pytest.mark.parametrize("form", FORMATS)
def test_a_truncated_image(form):
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    data = encoded(noise, form)
    for share in (0.2, 0.5, 0.9):
        with pytest.raises(ValueError, match=r"^image is (a damaged or truncated|not an image, or is damaged from)"):
            decode_image(data[: int(share * len(data))])


@pytest.mark.parametrize("data", [b"", b"GIF89a", b"<svg xmlns='http://www.w3.org/2000/svg'/>"])
def test_what_is_no_image(data):
    with pytest.raises(ValueError, match=r"^the upload is (empty|not an image)"):
        decode_image(data, name="the upload")


def test_too_many_bytes_and_pixels():
    data = encoded(gradient())
    with pytest.raises(ValueError, match=rf"^image has {len(data)} bytes; it may have at most 100"):
        decode_image(data, max_bytes=100)
    with pytest.raises(ValueError, match=r"^image has 24 × 16 pixels; it may have at most 383"):
        decode_image(data, max_pixels=383)
    assert decode_image(data, max_bytes=len(data), max_pixels=384).size == (24, 16)


def test_thin_images_are_refused():
    """A backbone would enlarge 1 × 10,000 pixels to 224 × 2,240,000."""
    assert as_image(Image.new("RGB", (4, 200))).size == (4, 200)
    for size, said in (((1, 10_000), "1 × 10,000"), ((201, 4), "201 × 4")):
        file = BytesIO()
        Image.new("RGB", size).save(file, "PNG")
        for image in (file.getvalue(), Image.new("RGB", size)):
            with pytest.raises(
                ValueError, match=f"^image has {said} pixels; it may be at most 50 times as long as wide$"
            ):
                as_image(image)


def png(width, height):
    """A PNG of a kilobyte whose header says what one likes."""

    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(4096))) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize(("width", "height"), [(10_000, 10_000), (30_000, 30_000), (2**31 - 1, 2**31 - 1)])
def test_a_bomb_is_refused_by_its_header(width, height, monkeypatch):
    from PIL import ImageFile

    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda self: pytest.fail("it was decoded"))
    with pytest.raises(
        ValueError, match=r"^image has (too many pixels|[0-9,]+ × [0-9,]+ pixels); it may have at most 50,000"
    ):
        decode_image(png(width, height))


def test_a_jpeg_of_endless_scans():
    data = encoded(gradient(), "JPEG", progressive=True)
    scan = data[data.index(b"\xff\xda") : -2]
    assert decode_image(data).size == (24, 16)
    with pytest.raises(ValueError, match=r"^image is a JPEG of more than 100 scans"):
        decode_image(data[:-2] + 120 * scan + data[-2:])


SAMPLES = {form: encoded(gradient(), form) for form in FORMATS}


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(FORMATS),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=12),
    st.floats(0, 1),
)
@pytest.mark.filterwarnings("ignore")
def test_whatever_comes_is_an_image_or_a_line(form, changes, share):
    data = bytearray(SAMPLES[form])
    for place, value in changes:
        data[int(place * len(data))] = value
    said = "image "
    try:
        decoded = decode_image(bytes(data[: max(1, int(len(data) * (0.5 + share)))]), max_pixels=1_000_000)
        assert decoded.mode == "RGB"
        assert decoded.width * decoded.height <= 1_000_000
    except ValueError as error:
        said = str(error)
    assert re.fullmatch("image .*", said)


def test_as_image_takes_images_and_bytes():
    source = gradient()
    assert as_image(source) is source
    assert as_image(encoded(source)).size == source.size
    assert pixels(as_image(Image.new("RGBA", (1, 1), (0, 0, 0, 0)))).tolist() == [[[255, 255, 255]]]
    with pytest.raises(TypeError, match=r"^row 3 is of type list"):
        as_image([1], "row 3")
    with pytest.raises(ValueError, match=r"^row 3 cannot be turned into RGB: a pixel is NaN or infinite"):
        as_image(Image.fromarray(np.full((1, 1), np.inf, np.float32)), "row 3")


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation(orientation):
    # By the EXIF standard: what turns the stored image upright.
    upright = {
        1: lambda a: a,
        2: lambda a: a[:, ::-1],
        3: lambda a: a[::-1, ::-1],
        4: lambda a: a[::-1],
        5: lambda a: a.transpose(1, 0, 2),
        6: lambda a: np.rot90(a, -1),
        7: lambda a: np.rot90(a, 2).transpose(1, 0, 2),
        8: lambda a: np.rot90(a, 1),
    }[orientation]
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    decoded = decode_image(encoded(gradient(), exif=exif))
    np.testing.assert_array_equal(pixels(decoded), upright(pixels(gradient())))
    gray = decode_image(encoded(gradient().convert("L"), "JPEG", exif=exif, quality=98))
    assert (gray.mode, gray.size) == ("RGB", (24, 16) if orientation < 5 else (16, 24))


def test_other_modes():
    for mode, form in (("CMYK", "JPEG"), ("CMYK", "TIFF"), ("YCbCr", "JPEG"), ("1", "PNG"), ("L", "BMP")):
        decoded = decode_image(encoded(gradient().convert(mode), form))
        assert (decoded.mode, decoded.size) == ("RGB", (24, 16))
    palette = Image.new("P", (2, 1))
    palette.putpalette([200, 0, 0, 0, 0, 200])
    palette.putpixel((1, 0), 1)
    for form in ("PNG", "GIF"):
        assert pixels(decode_image(encoded(palette, form))).tolist() == [[[200, 0, 0], [0, 0, 200]]]
        assert pixels(decode_image(encoded(palette, form, transparency=0))).tolist() == [[[255] * 3, [0, 0, 200]]]
