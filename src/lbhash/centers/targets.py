"""The class centers that a hasher trains towards: as they are designed, or arranged by what its rows are taken for."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from lbhash.centers import Centers, arrange, arrange_centers, center_kinds, class_centers

ARRANGED = "arranged"
DESIGNED = "best-ratio"
"""The kind of the words that are arranged: those that are nowhere near each other, and none opposite another."""

Confusion = Callable[[], npt.NDArray[np.floating]]


def task_center_kinds() -> list[str]:
    """The kinds that ``task_centers`` takes: all designs, and "arranged"."""
    return [*center_kinds(), ARRANGED]


def check_center_kind(kind: object) -> str:
    """Return a kind of class centers; raises ``ValueError`` where there is none of that name."""
    if not isinstance(kind, str) or kind not in task_center_kinds():
        raise ValueError(f"centers is {kind!r}; it must be one of {', '.join(task_center_kinds())}")
    return kind


def task_centers(kind: str, classes: int, bits: int, seed: int, confusion: Confusion) -> Centers:
    """Centers of one of ``task_center_kinds()``.

    Args:
        kind: "arranged" are those of the kind "best-ratio", moved to where classes that are mistaken for each other are
            neighbors (``lbhash.centers.arrange_centers``), as long as these are not too many to be arranged
            (``lbhash.centers.arrange.MOST_CLASSES``); all others are as of ``lbhash.centers.class_centers``.
        classes: C.
        bits: length of a code.
        seed: of what is random about them.
        confusion: makes ``[C, C]``, how much of a class is taken for another, where it is needed.

    Returns:
        ``int8 [C, bits]`` of ±1.

    Raises:
        ValueError: there is no such kind, or it has no such centers.
    """
    if check_center_kind(kind) != ARRANGED:
        return class_centers(classes, bits, kind=kind, seed=seed)
    designed = class_centers(classes, bits, kind=DESIGNED)
    if classes > arrange.MOST_CLASSES:
        said = (
            f"{classes} centers are too many to be arranged, which {arrange.MOST_CLASSES} may be; they are {DESIGNED!r}"
        )
        warnings.warn(said, stacklevel=2)
        return designed
    return arrange_centers(designed, confusion(), seed=seed)


def centers_mark(classes: int, bits: int, kind: str, seed: int) -> str:
    """What stands for class centers in a run's name: of the centers themselves, so that other ones are run anew."""
    if kind == ARRANGED:  # by the rows, which have a mark of their own
        return f"{centers_mark(classes, bits, DESIGNED, seed)}-arranged{arrange.SLACK:g}-{arrange.PULL:g}"
    return f"centers{zlib.crc32(class_centers(classes, bits, kind, seed).tobytes()):08x}"
