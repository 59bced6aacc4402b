from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lbhash import Hasher, evaluate
from lbhash.data import SPLITS, load_dataset

SHARED = Path(__file__).parents[2] / "shared" / "data"

pytestmark = pytest.mark.shared


@pytest.mark.parametrize(
    ("name", "sizes", "classes", "per_class", "disjoint"),
    [
        ("cifar10-mobilenetv2", (5000, 54000, 1000), 10, (500, 5400, 100), True),
        ("tiny-imagenet100-mobilenetv2", (10000, 25000, 5000), 100, (100, 250, 50), False),
        ("mosaic21-mobilenetv2", (5250, 11550, 1050), 21, None, False),
    ],
)
def test_the_files_are_as_their_readme_says(name, sizes, classes, per_class, disjoint):
    dataset = load_dataset(SHARED / f"{name}.parquet")
    assert (dataset.protocol, dataset.classes, dataset.multi_label) == ("flags", classes, per_class is None)
    assert tuple(len(dataset.split(split)) for split in SPLITS) == sizes
    table = dataset.train.embeddings
    assert (table.dtype, table.shape[1]) == (np.uint8, 1280)
    train, base, query = (set(dataset.split(split).rows.tolist()) for split in SPLITS)
    assert len(table) == len(train | base | query)
    assert not query & base
    assert not query & train
    assert (train.isdisjoint(base) if disjoint else train <= base) is True
    for split, count in zip(SPLITS, per_class or (), strict=False):
        assert np.bincount(dataset.split(split).labels).tolist() == [count] * classes
    if per_class is None:
        counts = dataset.base.labels.sum(axis=1)
        assert counts.min() == 1
        assert 1 < counts.max() <= 4


@pytest.mark.parametrize("name", ["cifar10-mobilenetv2", "mosaic21-mobilenetv2"])
def test_one_epoch_beats_random_codes_clearly(name):
    dataset = load_dataset(SHARED / f"{name}.parquet")
    hasher = Hasher(bits=32, hidden=64, epochs=1).fit_split(dataset.train, dataset.classes)
    codes = [hasher.encode_split(part) for part in (dataset.query, dataset.base)]
    rng = np.random.default_rng(0)
    at_random = [rng.integers(0, 256, made.shape, dtype=np.uint8) for made in codes]
    labels = dataset.query.labels, dataset.base.labels
    learned = evaluate(codes[0], labels[0], codes[1], labels[1]).map
    chance = evaluate(at_random[0], labels[0], at_random[1], labels[1]).map
    assert learned > chance + 0.1
