"""Class centers: ±1 codes, one a class, as far apart as possible in Hamming distance.

Average precision tends to grow with the smallest distance between two centers (D_inter), so the constructions are
compared by it. ``class_centers`` makes centers. ``design_centers`` also returns their construction, their minimum
distance, and whether it is proven to be the largest possible (``bounds``). Every kind avoids opposite words, a word and
its negative, unless other words would be nearer.
"""

from __future__ import annotations

from lbhash.centers.bounds import proof
from lbhash.centers.design import KINDS, CenterDesign, make_centers
from lbhash.centers.distance import Centers, check_size, minimum_distance
from lbhash.utils.memory import check_memory
from lbhash.utils.validation import check_choice, check_int

__all__ = ["class_centers", "design_centers"]


def center_kinds() -> list[str]:
    """Return the names of the kinds that ``class_centers`` takes; the last four are the paper's."""
    return list(KINDS)


def class_centers(classes: int, bits: int, kind: str = "best", seed: int = 0) -> Centers:
    """Make class centers that are far apart.

    Args:
        classes: number of classes C, from 1 to ``2**bits``.
        bits: length h of a code.
        kind: one of ``center_kinds()``. "best" has the largest minimum distance of all kinds, then the fewest opposite
            words, then the largest mean distance, then the best bit balance. "best-ratio" has the largest minimum
            distance, then the smallest maximum distance. Both are cached (the environment variable ``LBHASH_CACHE``
            names another folder than the user's cache folder).
        seed: for constructions with random numbers ("random", and "hadamard" when it fills up).

    Returns:
        ``int8 [C, bits]`` of -1 and +1, all rows distinct; row c is the center of class c. The same arguments give the
        same centers.

    Raises:
        TypeError: ``classes``, ``bits`` or ``seed`` is not an integer.
        ValueError: ``kind`` is not known or has too few words, or a number is out of its range.

    >>> centers = class_centers(10, 32)
    >>> centers.shape, minimum_distance(centers)
    ((10, 32), 17)
    """
    return make_centers(*_checked(classes, bits, kind, seed))[0].copy()


def design_centers(classes: int, bits: int, kind: str = "best", seed: int = 0) -> CenterDesign:
    """Make class centers, and say what is known about them; arguments and errors are those of ``class_centers``.

    >>> design = design_centers(21, 48)
    >>> design.minimum_distance, design.optimal, design.bound
    (24, True, 'Plotkin')
    """
    classes, bits, kind, seed = _checked(classes, bits, kind, seed)
    centers, construction = make_centers(classes, bits, kind, seed)
    centers.setflags(write=False)
    distance = minimum_distance(centers)
    return CenterDesign(centers, kind, construction, distance, proof(classes, bits, distance))


def _checked(classes: int, bits: int, kind: str, seed: int) -> tuple[int, int, str, int]:
    classes, bits = check_size(classes, bits)
    check_memory(2 * classes * bits, f"classes is {classes:,}, whose centers of {bits:,} bits", "take fewer of one")
    return classes, bits, check_choice(kind, "kind", KINDS), check_int(seed, "seed")
