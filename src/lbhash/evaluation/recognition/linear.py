"""Recognition by a linear classifier: fitted to codes, or the method's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.codes import PackedCodes, check_codes, check_same_width, check_width, unpack
from lbhash.evaluation.ranking import check_lengths
from lbhash.utils.labels import class_array, one_label_each

_CHUNK = 1 << 16


def linear_probe_predict(
    query_codes: npt.ArrayLike,
    base_codes: npt.ArrayLike,
    base_labels: Any,
    bits: int | None = None,
) -> npt.NDArray[Any]:
    """Predict the class of each query by a linear probe: a logistic regression on the bits of the base codes.

    It tells how well a linear classifier can read the classes off the codes (Alain and Bengio, "Understanding
    intermediate layers using linear classifier probes", ICLR 2017). Equal codes of one class are fitted as one row with
    a weight, which has the same optimum and, with short codes, takes a fraction of the time. Codes are packed, and each
    has a label of one of at least two classes.
    """
    from sklearn.linear_model import LogisticRegression

    queries, base = check_codes(query_codes, "query_codes"), check_codes(base_codes, "base_codes")
    check_same_width(queries, base, "query_codes", "base_codes")
    length = check_width(base, bits, "base_codes")
    labels = one_label_each(base_labels, "base_labels")
    check_lengths(base, labels, "base")
    classes = class_array(labels.classes)
    if len(classes) < 2:
        raise ValueError(f"base_labels has {len(classes)} classes; a linear probe needs at least 2")
    rows = np.concatenate([base, labels.numbers.astype("<i8")[:, None].view(np.uint8)], axis=1)
    rows, counts = np.unique(rows, axis=0, return_counts=True)
    x = unpack(np.ascontiguousarray(rows[:, : base.shape[1]]), length).astype(np.float32)
    y = np.ascontiguousarray(rows[:, base.shape[1] :]).view("<i8").ravel()
    probe = LogisticRegression(max_iter=1000, tol=1e-3).fit(x, y, sample_weight=counts)
    return classes[_by_chunks(queries, lambda chunk: probe.predict(unpack(chunk, length).astype(np.float32)))]


def classifier_predict(codes: npt.ArrayLike, weights: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Predict the class of each code by a method's classifier: the argmax of W b; of equal scores, the lowest class.

    GreedyHash and DSDH learn one beside the codes, and a model folder holds it (``HashModel.classifier.weight``). The
    codes are packed, and W is ``float [classes, bits]``.
    """
    w = np.asarray(weights, np.float32)
    if w.ndim != 2 or 0 in w.shape:
        raise ValueError(f"weights has shape {w.shape}; it must be [classes, bits]")
    checked = check_codes(codes)
    check_width(checked, w.shape[1])
    return _by_chunks(checked, lambda chunk: (unpack(chunk, w.shape[1]).astype(np.float32) @ w.T).argmax(axis=1))


def _by_chunks(codes: PackedCodes, predict: Callable[[PackedCodes], Any]) -> npt.NDArray[np.int64]:
    found = [predict(codes[start : start + _CHUNK]) for start in range(0, len(codes), _CHUNK)]
    return np.concatenate(found) if found else np.empty(0, np.int64)
