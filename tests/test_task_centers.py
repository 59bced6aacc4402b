"""The centres that a hasher trains towards."""

from __future__ import annotations

import numpy as np
import pytest

from lbhash import Hasher
from lbhash.centers import arrange_centers, center_kinds, class_centers
from lbhash.data import Part
from lbhash.leave_one_out import confusion
from lbhash.task_centers import ARRANGED, check_center_kind, task_center_kinds, task_centers

SETTINGS = {"bits": 16, "epochs": 1, "hidden": 8}


def never():
    raise AssertionError("nobody was to ask for it")


def test_designs_are_as_they_are_designed():
    assert task_center_kinds() == [*center_kinds(), ARRANGED]
    for kind in ("best", "best-ratio", "random"):
        np.testing.assert_array_equal(task_centers(kind, 10, 16, 3, never), class_centers(10, 16, kind, 3))
    for wrong in ("far", None, 3, ["best"]):
        with pytest.raises(ValueError, match=r"^centers is .*; it must be one of best, .*arranged$"):
            check_center_kind(wrong)


def test_too_many_classes_are_refused_before_anybody_is_asked(monkeypatch):
    monkeypatch.setattr("lbhash.centers.arrange.MOST_CLASSES", 9)
    with pytest.raises(ValueError, match="centers are 10; those that are arranged may be at most 9"):
        task_centers("arranged", 10, 16, 0, never)


@pytest.mark.parametrize("multi", [False, True])
def test_arranged_centers_are_by_the_rows_that_are_trained_on(blobs, multi):
    part = Part(blobs.x, np.arange(len(blobs.x)), blobs.hot if multi else blobs.y)
    words = class_centers(4, 16, "best-ratio")
    expected = arrange_centers(words, confusion(part, 4), seed=2)
    hasher = Hasher(**SETTINGS, method="csq", seed=2, centers="arranged").fit_part(part, 4)
    np.testing.assert_array_equal(hasher.centers_, expected)
    (together,) = Hasher(**SETTINGS, method="csq", centers="arranged").fit_seeds(part, 4, [2])
    np.testing.assert_array_equal(together.centers_, expected)
    np.testing.assert_array_equal(hasher.encode_part(part), together.encode_part(part))


def test_rows_held_out_of_the_training_have_no_say(blobs, monkeypatch):
    asked = []
    part = Part(blobs.x, np.arange(len(blobs.x)), blobs.y)
    monkeypatch.setattr(
        "lbhash.hasher.confusion", lambda rows, classes: asked.append(len(rows)) or confusion(rows, classes)
    )
    hasher = Hasher(**SETTINGS, centers="arranged", validation=0.25)
    hasher.fit_part(part, 4)
    assert asked == [round(0.75 * len(blobs.x))]


def test_arranged_centers_are_kept_with_the_model(blobs, tmp_path):
    hasher = Hasher(**SETTINGS, centers="arranged").fit(blobs.x, blobs.y)
    hasher.save_pretrained(tmp_path / "model")
    again = Hasher.from_pretrained(tmp_path / "model")
    assert again.centers == "arranged"
    np.testing.assert_array_equal(again.transform(blobs.x), hasher.transform(blobs.x))
