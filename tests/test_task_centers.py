"""The centers that a hasher trains towards."""

from __future__ import annotations

import numpy as np
import pytest

from lbhash import Hasher
from lbhash.centers import center_kinds, class_centers
from lbhash.centers.arrange import arrange_centers
from lbhash.centers.targets import ARRANGED, check_center_kind, task_center_kinds, task_centers
from lbhash.data.split import EmbeddingSplit
from lbhash.hasher import fit_split
from lbhash.losses import Objective
from lbhash.losses.registry import METHODS, uses_centers
from lbhash.training.confusion import confusion
from lbhash.training.settings import grouped

SETTINGS = {"bits": 16, "epochs": 1, "hidden": 8}


class Own(Objective):
    """It may look at the centers, for what anybody knows."""

    def __init__(self, task):
        super().__init__()

    def forward(self, logits, labels, index):
        return logits.square().mean()


def never():
    raise AssertionError("nobody was to ask for it")


def test_designs_are_as_they_are_designed():
    assert task_center_kinds() == [*center_kinds(), ARRANGED]
    for kind in ("best", "best-ratio", "random"):
        np.testing.assert_array_equal(task_centers(kind, 10, 16, 3, never), class_centers(10, 16, kind, 3))
    for wrong in ("far", None, 3, ["best"]):
        with pytest.raises(ValueError, match=r"^centers is .*; it must be one of best, .*arranged"):
            check_center_kind(wrong)


def test_too_many_classes_to_be_arranged_have_what_is_designed(monkeypatch):
    monkeypatch.setattr("lbhash.centers.arrange.MOST_CLASSES", 9)
    with pytest.warns(
        UserWarning, match=r"^10 centers are too many to be arranged \(at most 9\); they stay 'best-ratio'$"
    ):
        found = task_centers("arranged", 10, 16, 0, never)
    np.testing.assert_array_equal(found, class_centers(10, 16, "best-ratio"))
    with pytest.raises(AssertionError):
        task_centers("arranged", 9, 16, 0, never)


@pytest.mark.parametrize(("method", "pull"), [("dch", "none"), ("dch", "surrogate"), ("csq", "none"), (Own, "none")])
def test_nothing_is_arranged_for_a_method_that_does_not_look(blobs, monkeypatch, method, pull):
    looks = (method, pull) != ("dch", "none")
    assert uses_centers(method, pull) == looks
    assert uses_centers(type("Mine", (METHODS["dch"],), {}), "none")  # it may, though DCH does not
    asked = []
    monkeypatch.setattr("lbhash.training.prepare.confusion", lambda *given: asked.append(1) or confusion(*given))
    Hasher(**grouped(**SETTINGS, method=method, pull=pull)).fit(blobs.x, blobs.y)
    assert len(asked) == looks


def test_the_methods_that_do_not_look_at_centers_do_not(blobs):
    """With other centers their models are the same, and those of methods that look are not."""
    for method in METHODS:
        hashers = [
            Hasher(**grouped(**SETTINGS, method=method, pull="none", centers=kind)) for kind in ("best", "random")
        ]
        one, other = (hasher.fit(blobs.x, blobs.y).model_.outputs(blobs.x) for hasher in hashers)
        assert np.array_equal(one, other) != uses_centers(method, "none")


@pytest.mark.parametrize("multi", [False, True])
def test_arranged_centers_are_by_the_rows_that_are_trained_on(blobs, multi):
    part = EmbeddingSplit(blobs.x, np.arange(len(blobs.x)), blobs.hot if multi else blobs.y)
    words = class_centers(4, 16, "best-ratio")
    expected = arrange_centers(words, confusion(part, 4), seed=2)
    hasher = fit_split(Hasher(**grouped(**SETTINGS, method="csq", seed=2, centers="arranged")), part, 4)
    np.testing.assert_array_equal(hasher.centers_, expected)


def test_rows_held_out_of_the_training_have_no_say(blobs, monkeypatch):
    asked = []
    part = EmbeddingSplit(blobs.x, np.arange(len(blobs.x)), blobs.y)
    monkeypatch.setattr(
        "lbhash.training.prepare.confusion", lambda rows, classes: asked.append(len(rows)) or confusion(rows, classes)
    )
    hasher = Hasher(**grouped(**SETTINGS, head="bits", centers="arranged", validation=0.25))
    fit_split(hasher, part, 4)
    assert asked == [round(0.75 * len(blobs.x))]


def test_arranged_centers_are_kept_with_the_model(blobs, tmp_path):
    hasher = Hasher(**grouped(**SETTINGS, centers="arranged")).fit(blobs.x, blobs.y)
    hasher.save_pretrained(tmp_path / "model")
    again = Hasher.from_pretrained(tmp_path / "model")
    assert again.centers == "arranged"
    np.testing.assert_array_equal(again.transform(blobs.x), hasher.transform(blobs.x))
