from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageEnhance

from lbhash.training.images import Augmentation, augmentation_numbers

STILL = Augmentation(crop=(1, 1), flip=0, brightness=0, contrast=0, saturation=0)
BILINEAR = Image.Resampling.BILINEAR


def noise(width, height, low=60, high=180, seed=0):
    rng = np.random.default_rng(seed)
    return Image.fromarray(rng.integers(low, high, (height, width, 3), dtype=np.uint8))


def changed(augmentation, image, size, draws):
    return np.asarray(augmentation.apply(image, size, np.array(draws, float), BILINEAR))


@given(
    width=st.integers(1, 400),
    height=st.integers(1, 400),
    least=st.floats(0.01, 1),
    draws=st.lists(st.floats(0, 1, exclude_max=True), min_size=4, max_size=4),
)
def test_the_crop_is_a_box_in_the_image(width, height, least, draws):
    augmentation = Augmentation(crop=(least, 1.0))
    left, top, right, bottom = augmentation._box((width, height), np.array(draws))
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height
    share = least + draws[0] * (1 - least)
    ratio = math.exp(math.log(3 / 4) + draws[1] * (math.log(4 / 3) - math.log(3 / 4)))
    across, down = math.sqrt(share * width * height * ratio), math.sqrt(share * width * height / ratio)
    if across <= width and down <= height:  # else the image is not as wide, or as high, and cuts it
        assert (right - left) * (bottom - top) == pytest.approx(share * width * height, rel=1e-6)
        assert (right - left) / (bottom - top) == pytest.approx(ratio, rel=1e-6)
    else:
        assert (right - left, bottom - top) == pytest.approx((min(across, width), min(down, height)), rel=1e-6)


def test_pixels_of_the_crop():
    image = noise(40, 40)
    augmentation = Augmentation(crop=(0.25, 0.25), flip=0, brightness=0, contrast=0, saturation=0)
    made = changed(augmentation, image, (20, 20), [0, 0.5, 0.5, 0.25, 0, 0, 0, 0])
    np.testing.assert_array_equal(made, np.asarray(image)[5:25, 10:30])


@given(draws=st.lists(st.floats(0, 1, exclude_max=True), min_size=3, max_size=3), spread=st.floats(0, 0.3))
def test_colors_are_those_of_pillow(draws, spread):
    image = noise(16, 16, 90, 150)  # so that no step of Pillow's cuts anything off
    augmentation = Augmentation(crop=(1, 1), flip=0, brightness=spread, contrast=spread, saturation=spread)
    made = changed(augmentation, image, (16, 16), [0, 0.5, 0, 0, 0.5, *draws])
    brightness, contrast, saturation = (1 + spread * (2 * draw - 1) for draw in draws)
    expected = ImageEnhance.Brightness(image).enhance(brightness)
    expected = ImageEnhance.Contrast(expected).enhance(contrast)
    expected = ImageEnhance.Color(expected).enhance(saturation)
    difference = np.asarray(expected, int) - made
    # Pillow cuts fractions off three times, of which two are then enlarged by up to 1.3 each, and this rounds once.
    assert np.abs(difference).max() <= 4


@pytest.mark.parametrize("at", range(3))
def test_each_factor_is_one_of_its_own(at):
    """The names are not exchanged: one spread alone has the effect of Pillow's filter of that name."""
    image = noise(16, 16, 90, 150)
    names = ("brightness", "contrast", "saturation")
    filters = (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color)
    spreads = dict.fromkeys(names, 0.0) | {names[at]: 0.5}
    draws = [0, 0.5, 0, 0, 0.5, 0.5, 0.5, 0.5]
    draws[5 + at] = 0.9
    made = changed(Augmentation(crop=(1, 1), flip=0, **spreads), image, (16, 16), draws)
    assert np.abs(np.asarray(filters[at](image).enhance(1.4), int) - made).max() <= 1


@pytest.mark.parametrize(
    ("settings", "error", "said"),
    [
        ({"crop": (0, 1)}, ValueError, r"^crop is \(0, 1\); it must be two shares above 0 and up to 1, the smaller"),
        ({"crop": (0.5, 1.1)}, ValueError, r"^crop is \(0.5, 1.1\); it must be two shares"),
        ({"crop": (0.9, 0.5)}, ValueError, r"^crop is \(0.9, 0.5\); it must be two shares"),
        ({"crop": 0.5}, TypeError, r"^crop is 0.5; it must be two numbers, the least and the most share of the area"),
        ({"flip": 1.5}, ValueError, r"^flip is 1.5; it must be from 0 to 1"),
        ({"saturation": "0.2"}, TypeError, r"^saturation is '0.2'; it must be a number, from 0 to 1"),
    ],
)
def test_bad_settings(settings, error, said):
    with pytest.raises(error, match=said):
        Augmentation(**settings)


def test_draws_follow_from_seed_epoch_and_row():
    np.testing.assert_array_equal(augmentation_numbers(1, 2, 3), augmentation_numbers(1, 2, 3))
    made = [tuple(augmentation_numbers(*numbers)) for numbers in np.ndindex(3, 3, 3)]
    assert len(set(made)) == 27
    every = np.concatenate([augmentation_numbers(7, epoch, row) for epoch in range(20) for row in range(20)])
    assert every.shape == (3200,)
    assert 0 <= every.min() < 0.01 < 0.99 < every.max() < 1
    assert abs(every.mean() - 0.5) < 0.02


def test_flips():
    image = noise(24, 24)
    flipping = Augmentation(crop=(1, 1), flip=0.3, brightness=0, contrast=0, saturation=0)
    for draw in (0, 0.29, 0.31, 0.99):
        made = changed(flipping, image, (24, 24), [0, 0.5, 0, 0, draw, 0, 0, 0])
        expected = np.asarray(image)[:, ::-1] if draw < 0.3 else np.asarray(image)
        np.testing.assert_array_equal(made, expected)
