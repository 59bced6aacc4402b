"""The class centers that a hasher trains towards: as designed, or arranged by the confusion of its rows."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from lbhash.centers import center_kinds, class_centers
from lbhash.centers.distance import Centers
from lbhash.utils.validation import check_choice

ARRANGED = "arranged"
DESIGNED = "best-ratio"  # the kind that is arranged: far apart from each other, and none opposite another

Confusion = Callable[[], npt.NDArray[np.floating]]


def task_center_kinds() -> list[str]:
    """Return the kinds that ``task_centers`` takes: all designs, and "arranged"."""
    return [*center_kinds(), ARRANGED]


def check_center_kind(kind: object) -> str:
    """Return a kind of class centers; raises ``ValueError`` if there is no such kind."""
    return str(check_choice(kind, "centers", task_center_kinds()))


def task_centers(kind: str, classes: int, bits: int, seed: int, confusion: Confusion) -> Centers:
    """Return centers of one of ``task_center_kinds()``.

    The kind "arranged" is "best-ratio", moved so that frequently confused classes are neighbors (``arrange_centers``),
    unless they are too many to be arranged. ``confusion`` returns the confusion matrix ``[C, C]``, and is called only
    if the kind needs it.
    """
    if check_center_kind(kind) != ARRANGED:
        return class_centers(classes, bits, kind=kind, seed=seed)
    from lbhash.centers import arrange  # Numba takes its time

    designed = class_centers(classes, bits, kind=DESIGNED)
    if classes > arrange.MOST_CLASSES:
        limit = f"at most {arrange.MOST_CLASSES}"
        warnings.warn(f"{classes} centers are too many to be arranged ({limit}); they stay {DESIGNED!r}", stacklevel=2)
        return designed
    return arrange.arrange_centers(designed, confusion(), seed=seed)


def centers_fingerprint(classes: int, bits: int, kind: str, seed: int) -> str:
    """Return a short name that follows from the centers (without the rows by which they are arranged), for runs."""
    if kind == ARRANGED:
        from lbhash.centers import arrange

        return f"{centers_fingerprint(classes, bits, DESIGNED, seed)}-arranged{arrange.SLACK:g}-{arrange.PULL:g}"
    return f"centers{zlib.crc32(class_centers(classes, bits, kind, seed).tobytes()):08x}"
