from __future__ import annotations

import numpy as np
import pytest

from lbhash.service.summary import neighborly, principal


def tsne(signs):
    return np.frombuffer(neighborly(signs), np.float32).reshape(-1, 2)


@pytest.mark.parametrize("project", [principal, tsne])
def test_codes_of_a_class_lie_together(project):
    rng = np.random.default_rng(0)
    classes = np.repeat(np.arange(3), 20)
    centers = np.where(np.arange(24) // 8 == np.arange(3)[:, None], 1, -1)
    signs = np.where(rng.random((60, 24)) < 0.03, -1, 1) * centers[classes]
    plane = project(signs.astype(np.int8))
    assert (plane.shape, plane.dtype) == ((60, 2), np.float32)
    assert np.abs(plane).max() == pytest.approx(1)
    distances = np.linalg.norm(plane[:, None] - plane, axis=2)
    same = classes[:, None] == classes
    assert np.median(distances[same]) < 0.3 * np.median(distances[~same])


def test_codes_that_are_all_equal():
    assert np.abs(principal(np.ones((5, 8), np.int8))).max() == 0


def test_codes_of_one_bit():
    plane = principal(np.array([[1], [1], [-1]], np.int8))
    assert len(np.unique(plane, axis=0)) == 2


def test_a_code_far_off_leaves_room_for_the_others():
    signs = np.ones((101, 64), np.int8)
    signs[np.arange(100), np.arange(100) % 4] = -1
    signs[100] = -1
    plane = principal(signs)
    assert np.ptp(plane[:100], axis=0).max() > 0.2
