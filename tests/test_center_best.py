"""The best centers: distances that must be reached, proofs, and the cache."""

from __future__ import annotations

import contextlib
import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.centers import best as best_module
from lbhash.centers import center_kinds, class_centers, design, design_centers, store
from lbhash.centers.choose import opposite_pairs
from lbhash.centers.distance import describe, maximum_distance, minimum_distance

REACHED = {
    # Smallest distances of commit 719e62a that are above the best linear code's, by classes and bits.
    (10, 32): 17,
    (10, 64): 35,
    (20, 8): 3,
    (28, 12): 5,
    (36, 16): 7,
    (56, 22): 10,
    (77, 48): 24,
    (77, 256): 129,
    (100, 48): 23,
    (104, 52): 26,
    (144, 12): 4,
    (150, 16): 6,
    (160, 24): 9,
    (164, 81): 40,
    (200, 51): 24,
    (252, 125): 62,
    (388, 193): 96,
    (1000, 64): 28,
    (1000, 256): 124,
    (10_000, 256): 120,
}


@pytest.mark.parametrize("cell", REACHED)
def test_distances_that_are_reached(cell):
    assert minimum_distance(class_centers(*cell)) == REACHED[cell]


@pytest.mark.slow
def test_the_distances_of_the_docs():
    with (Path(__file__).parents[1] / "docs" / "center-distances.csv").open(newline="") as lines:
        for line in csv.DictReader(lines):
            classes, bits = int(line["classes"]), int(line["bits"])
            if classes <= 1000:
                made = design_centers(classes, bits)
                assert (made.minimum_distance, made.bound or "") == (int(line["distance"]), line["proof"]), line


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_any_cell(data):
    bits = data.draw(st.integers(1, 40), "bits")
    classes = data.draw(st.integers(1, min(2**bits, 60)), "classes")
    made = design_centers(classes, bits)
    assert made.centers.shape == (classes, bits)
    assert set(np.unique(made.centers)) <= {-1, 1}
    assert len(np.unique(made.centers, axis=0)) == classes
    assert made.minimum_distance == min(
        (int((a != b).sum()) for i, a in enumerate(made.centers) for b in made.centers[:i]), default=bits
    )
    ratio = class_centers(classes, bits, "best-ratio")
    assert minimum_distance(ratio) == made.minimum_distance
    assert maximum_distance(ratio) <= maximum_distance(made.centers)
    assert opposite_pairs(ratio) == opposite_pairs(made.centers)
    design._cached_centers.cache_clear()
    store._sources.cache_clear()
    np.testing.assert_array_equal(made.centers, class_centers(classes, bits))


@pytest.mark.end_to_end
def test_two_fresh_processes_make_the_same(tmp_path):
    script = "import sys, zlib; from lbhash.centers import class_centers as c; print([zlib.crc32(c(n, b, k).tobytes()) "
    script += "for n, b in ((10, 16), (30, 20), (100, 24)) for k in ('best', 'best-ratio')])"
    said = [
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"LBHASH_CACHE": str(tmp_path / str(i))},
            capture_output=True,
            check=True,
        ).stdout
        for i in range(2)
    ]
    assert said[0] == said[1] != b""


@pytest.mark.parametrize(
    ("classes", "bits"),
    [(223, 54), (60, 30), (37, 17), (12, 24), (2, 8), (10, 12), (21, 64), (100, 48)],
)
def test_no_kind_beats_the_best_in_any_measure(classes, bits):
    best = best_module.merit(class_centers(classes, bits))
    for kind in center_kinds():
        with contextlib.suppress(ValueError):  # a kind that has not as many words
            assert best_module.merit(class_centers(classes, bits, kind)) <= best


@pytest.mark.parametrize(("classes", "bits", "least", "most"), [(10, 16, 8, 8), (100, 16, 6, 10), (21, 32, 16, 16)])
def test_the_best_ratio_has_the_smallest_maximum_distance(classes, bits, least, most):
    centers = class_centers(classes, bits, "best-ratio")
    assert (minimum_distance(centers), maximum_distance(centers)) == (least, most)
    assert maximum_distance(centers) == max(describe(centers)["histogram"])


def test_more_classes_than_the_linear_codes_have_words():
    made = class_centers(2**20 + 1, 21)
    assert made.shape == (2**20 + 1, 21)
    numbers = (made > 0) @ (1 << np.arange(21))
    assert np.bincount(numbers).max() == 1


def test_a_design_says_everything():
    made = design_centers(100, 48)
    assert made.as_dict() == {
        "kind": "best",
        "construction": "conference code of length 49, 1 bit dropped",
        **describe(made.centers),
        "bound": "Plotkin",
        "optimal": True,
    }
    assert not design_centers(100, 48, "random").optimal
    assert design_centers(1, 16).optimal


# The cache


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("LBHASH_CACHE", str(tmp_path / "cache"))
    design._cached_centers.cache_clear()
    yield tmp_path / "cache"
    design._cached_centers.cache_clear()


def test_centers_are_kept_and_read_again(folder, monkeypatch):
    made = design_centers(81, 24)
    assert len(list(folder.rglob("best-81x24-*.npz"))) == 1
    design._cached_centers.cache_clear()
    monkeypatch.setitem(design.COMPARED, "best", lambda *_: pytest.fail("made again"))
    again = design_centers(81, 24)
    np.testing.assert_array_equal(again.centers, made.centers)
    assert again.as_dict() == made.as_dict()


def test_a_damaged_file_is_made_again(folder):
    made = class_centers(10, 16)
    (file,) = folder.rglob("*.npz")
    for damage in (b"", file.read_bytes()[:100], b"nonsense"):
        file.write_bytes(damage)
        design._cached_centers.cache_clear()
        np.testing.assert_array_equal(class_centers(10, 16), made)


def test_a_cache_that_cannot_be_written_is_no_error(folder):
    folder.write_text("a file where the folder should be")
    assert class_centers(10, 16).shape == (10, 16)


def test_what_is_returned_is_ones_own(folder):
    centers = class_centers(10, 16)
    centers[:] = 0
    assert class_centers(10, 16).all()
    design_centers(10, 16)
    with pytest.raises(ValueError, match="read-only"):
        design_centers(10, 16).centers[0] = 0


def test_the_cache_is_where_the_platform_has_it(monkeypatch, tmp_path):
    monkeypatch.delenv("LBHASH_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert store.cache_folder().name == "lbhash"
