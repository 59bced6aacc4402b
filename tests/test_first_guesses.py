"""What users of other libraries type first: it works, or the error names what does."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

import lbhash
from lbhash import Hasher, Index

X, y = (part[:400] for part in load_digits(return_X_y=True))

SKLEARN = """
hasher = Hasher(16, method="itq")
hasher.fit(X, y)
hasher.fit_transform(X, y).shape
make_pipeline(StandardScaler(), Hasher(8, method="itq")).fit(X, y).predict(X[:3])
GridSearchCV(Hasher(method="itq"), {"bits": [8, 16]}, cv=2).fit(X).best_params_
cross_val_score(Hasher(8, method="itq"), X, y, cv=2).mean()
distances, rows = hasher.kneighbors(X[:5])
clone(hasher).set_params(bits=8).fit(X).score(X[:50])
Hasher(16, random_state=0)  # TypeError: 'random_state' is no setting of Hasher; did you mean seed?
hasher.kneighbors(X, n_neighbors=5)  # TypeError: 'n_neighbors' is no argument of kneighbors; did you mean k?
"""
FAISS = """
codes = np.packbits(X > 4, axis=1)
index = Index(64)
index.add(codes)
D, I = index.search(codes[:5], 10)
Index(64, "ivf").add(codes, ids=np.arange(400))
index.range_search(codes[:2], 3).limits
len(index)
index.save(folder)
Index.open(folder).search(codes[:1], k=3).ids
index.ntotal  # AttributeError: 'ntotal' is no attribute of Index; did you mean len(index)?
"""
SENTENCE_TRANSFORMERS = """
model = Hasher(32, method="itq").fit(X)
codes = model.encode(X)
codes.dtype, codes.shape
lbhash.pack(X[:, :32] > 4).shape
lbhash.hamming_distances(codes[:2], codes).shape
model.save_pretrained(folder)
Hasher.from_pretrained(folder).encode(X[:2])
Index.from_hasher(model).add(codes)
model.encode(X, show_progress_bar=True)  # TypeError: no argument of encode; did you mean Hasher(progress=True)?
model.similarity(codes, codes)  # AttributeError: no attribute of Hasher; did you mean hamming_distances(codes, codes)?
"""
MORE = """
lbhash.read_index("index")  # AttributeError: no attribute of lbhash; did you mean Index.open(path)?
lbhash.quantize_embeddings(X, "ubinary")  # AttributeError: did you mean Hasher(bits).fit(X).encode(X)?
lbhash.bound(codes, y)  # AttributeError: did you mean lbhash.evaluation.bound?
index.is_trained  # AttributeError: did you mean index.add(codes), which needs no training?
index.remove_ids([1])  # AttributeError: did you mean index.remove(ids)?
index.search(codes[:1], top_k=3)  # TypeError: 'top_k' is no argument of search; did you mean k?
lbhash.load_dataset("digits", label_colum="none")  # TypeError: did you mean label_column?
Hasher(16).kneighbors(X)  # ValueError: this Hasher is not fitted yet; call fit
Index.from_hasher(Hasher(16))  # ValueError: hasher is not fitted yet; call fit
index.search(X, 5)  # TypeError: codes holds float64; packed codes are uint8: lbhash.pack makes them of
model.save("model")  # AttributeError: did you mean save_pretrained?
"""


@pytest.mark.parametrize("lines", [SKLEARN, FAISS, SENTENCE_TRANSFORMERS])
def test_eight_of_ten_work_and_the_others_say_what_does(lines, tmp_path):
    assert len(lines.split("\n")) == 12
    assert sum("# " not in line for line in lines.strip().split("\n")) >= 8
    type_lines(lines, tmp_path)


def test_other_first_guesses(tmp_path):
    known = {"index": Index(64), "model": Hasher(32, method="itq").fit(X), "codes": np.zeros((400, 4), np.uint8)}
    type_lines(MORE, tmp_path, known)


def type_lines(lines, folder, known=None):
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    tools = (clone, GridSearchCV, cross_val_score, make_pipeline, StandardScaler, Hasher, Index)
    names = {one.__name__: one for one in tools} | {"X": X, "y": y, "np": np, "lbhash": lbhash}
    names |= {"folder": str(folder / "saved"), **(known or {})}
    for line in lines.strip().split("\n"):
        code, _, error = line.partition("  # ")
        if not error:
            exec(code, names)
            continue
        kind, _, said = error.partition(": ")
        with pytest.raises({one.__name__: one for one in (TypeError, ValueError, AttributeError)}[kind]) as caught:
            exec(code, names)
        assert said in str(caught.value)


def test_what_is_shown_is_short():
    digits, table = lbhash.load_dataset("digits"), lbhash.data.load_table("digits")
    assert repr(digits) == "Dataset(digits, digits: 800 train, 1,597 base, 200 query rows; 10 classes)"
    assert repr(table) == "EmbeddingTable(digits, 1,797 rows, 10 classes)"
    assert repr(digits.query) == "EmbeddingSplit(200 rows of 64 numbers)"
    index = Index(8)
    index.add(np.zeros((3, 1), np.uint8))
    found = index.range_search(np.zeros((2, 1), np.uint8), 0)
    assert repr(found) == "Within(6 codes of 2 queries: limits, distances, ids)"
