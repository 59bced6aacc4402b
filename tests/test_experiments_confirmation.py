"""The draw by a commit's hash: half of the classes, and splits that do not leak."""

import numpy as np
import pyarrow as pa
from benchmarks.experiments.confirmation import drawn

FLAGS = ("in_train", "in_base", "in_query")


def test_a_commit_draws_half_of_the_classes_and_their_splits():
    labels = np.repeat(np.arange(6), 150)
    table = pa.table({"row": np.arange(900), "label": labels} | {name: np.zeros(900, bool) for name in FLAGS})
    one, again, other = (drawn(table, commit) for commit in ("5a" * 20, "5a" * 20, "c3" * 20))
    assert one.equals(again)
    assert not one.equals(other)
    kept, (train, base, query) = one["label"].to_numpy(), (one[name].to_numpy() for name in FLAGS)
    assert len(set(kept)) == 3
    assert (kept == labels[one["row"].to_numpy()]).all()
    assert (base ^ query).all()
    assert not (train & query).any()
    for label in set(kept):
        assert (train[kept == label].sum(), query[kept == label].sum()) == (100, 30)
