"""The bound of an arrangement's energy."""

from __future__ import annotations

import csv
from itertools import product

import numpy as np
import pytest
from benchmarks.experiments import arrangement_bound
from hypothesis import given, settings
from hypothesis import strategies as st

from lbhash.centers import class_centers
from lbhash.centers.distance import minimum_distance

pytestmark = pytest.mark.end_to_end


@settings(deadline=None, max_examples=8)
@given(st.integers(0, 10**6), st.integers(0, 2))
def test_no_words_are_below_the_bound(seed, least):
    rng = np.random.default_rng(seed)
    words = class_centers(4, 4, kind="random", seed=seed % 100)
    wanted = arrangement_bound.wanted_distances(words, rng.random((4, 4)) ** 4)
    columns = [(1, *rest) for rest in product((-1, 1), repeat=3)]  # a bit and its complement are the same
    every = min(
        arrangement_bound.energy(np.array(bits, np.int8).T, wanted)
        for bits in product(columns, repeat=4)
        if minimum_distance(np.array(bits, np.int8).T) >= least
    )
    assert arrangement_bound.least_energy(wanted, 4, least) <= every + 1e-6


def test_the_table(tmp_path):
    file = tmp_path / "bound.csv"
    arrangement_bound.main(["--data", "digits", "--bits", "16", "--out", str(file)])
    (line,) = csv.DictReader(file.read_text().splitlines())
    assert (line["data"], line["bits"]) == ("digits", "16")
    assert float(line["bound"]) <= float(line["ten times the moves"]) <= float(line["designed"])
    assert float(line["bound"]) <= float(line["arranged"]) <= float(line["designed"])
