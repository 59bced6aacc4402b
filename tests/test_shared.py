"""Training on real data, which the project does not hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lbhash import Hasher, TrainingArguments, evaluate
from lbhash.data import load_dataset
from lbhash.hasher import encode_split, fit_split

pytestmark = pytest.mark.end_to_end

SHARED = Path(__file__).parents[2] / "shared" / "data"


@pytest.mark.shared
@pytest.mark.parametrize("name", ["cifar10-mobilenetv2", pytest.param("mosaic21-mobilenetv2", marks=pytest.mark.slow)])
def test_one_epoch_beats_random_codes_clearly(name):
    dataset = load_dataset(SHARED / f"{name}.parquet")
    hasher = fit_split(Hasher(bits=32, epochs=1, training=TrainingArguments(hidden=64)), dataset.train, dataset.classes)
    codes = [encode_split(hasher, part) for part in (dataset.query, dataset.base)]
    rng = np.random.default_rng(0)
    at_random = [rng.integers(0, 256, made.shape, dtype=np.uint8) for made in codes]
    labels = dataset.query.labels, dataset.base.labels
    learned = evaluate(codes[0], labels[0], codes[1], labels[1]).map
    chance = evaluate(at_random[0], labels[0], at_random[1], labels[1]).map
    assert learned > chance + 0.1
