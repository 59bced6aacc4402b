"""No linear code here is below the best known, but for those listed."""

import random

import numpy as np
import pytest

from lbhash.centers import class_centers, minimum_distance
from lbhash.centers.bounds.best_linear import best_known_linear
from lbhash.centers.constructions.goppa import goppa_generator
from lbhash.centers.constructions.linear_table import best_linear_code

# BEGIN of the list; `python -m tests.test_center_best_known` prints it.
BELOW: dict[int, str] = {
    15: ("72-73 "),
}
# END of the list
"""The lengths by dimension whose best known code is not here yet, as ranges: it takes a longer search."""


def below(k: int) -> set[int]:
    """The lengths of the list for a dimension."""
    ranges = (part.partition("-")[::2] for part in BELOW.get(k, "").split())
    return {n for first, last in ranges for n in range(int(first), int(last or first) + 1)}


@pytest.mark.parametrize("k", range(1, 16))
def test_every_length_from_4_to_256(k):
    missing = {n for n in range(max(4, k), 257) if best_linear_code(n, k).d < best_known_linear(n, k)}
    assert missing <= below(k)


CELLS = [(n, k) for k in range(1, 16) for n in range(k + 1, 257) if n not in below(k)]


@pytest.mark.slow
@pytest.mark.parametrize(("n", "k"), random.Random(0).sample(CELLS, 40))
def test_centers_reach_the_best_known_by_counting(n, k):
    assert minimum_distance(class_centers(2**k, n)) >= best_known_linear(n, k)


@pytest.mark.slow
@pytest.mark.parametrize("k", range(1, 16))
def test_every_distance_of_the_table_is_counted(k):
    for n in range(max(4, k), 257):
        code = best_linear_code(n, k)
        assert least_weight(code.generator()) >= code.d


@pytest.mark.slow
def test_the_distance_of_the_goppa_code_is_counted():
    assert least_weight(goppa_generator(8, (16, 1), 6)) == 104


def least_weight(generator):
    """The least weight of all words but 0, by the Walsh-Hadamard transform: n - 2 weight of each word."""
    k, n = generator.shape
    sums = np.bincount((1 << np.arange(k)) @ generator.astype(np.int64), minlength=2**k)
    for half in 2 ** np.arange(k):
        left, right = sums.reshape(-1, 2, half).transpose(1, 0, 2)
        sums = np.stack([left + right, left - right], axis=1).ravel()
    return (n - sums[1:].max()) // 2


def test_the_table_has_known_codes():
    # Simplex, Golay, Reed-Muller, extended BCH and quadratic-residue codes.
    known = {(7, 3): 4, (24, 12): 8, (32, 6): 16, (64, 10): 28, (128, 15): 56, (48, 16): 16, (46, 9): 20, (40, 7): 18}
    assert {cell: best_known_linear(*cell) for cell in known} == known
    assert best_known_linear(257, 9) is best_known_linear(3, 4) is best_known_linear(60, 17) is None


def test_the_table_of_2006_has_no_later_record():
    assert best_known_linear(46, 9) == 20  # S. Kurz, The [46, 9, 20] code is unique (2021)
    assert best_known_linear(46, 9, of_2006=True) == 19
    for k in range(1, 17):
        assert all(best_known_linear(n, k, of_2006=True) <= best_known_linear(n, k) for n in range(max(4, k), 257))


def listed() -> str:
    """The list, made anew."""
    lines = []
    for k in range(1, 16):
        missing = [n for n in range(max(4, k), 257) if best_linear_code(n, k).d < best_known_linear(n, k)]
        starts = [n for n in missing if n - 1 not in missing]
        ends = [n for n in missing if n + 1 not in missing]
        parts = [str(a) if a == b else f"{a}-{b}" for a, b in zip(starts, ends, strict=True)]
        rows = [parts[i : i + 12] for i in range(0, len(parts), 12)]
        if parts:
            lines.append(f"    {k}: (\n" + "\n".join(f'        "{" ".join(row)} "' for row in rows) + "\n    ),")
    return "BELOW: dict[int, str] = {\n" + "\n".join(lines) + "\n}"


if __name__ == "__main__":
    print(listed())
