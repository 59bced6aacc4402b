"""No linear code here is below the best known, but for those listed."""

import random

import pytest

from lbhash.centers import class_centers, minimum_distance
from lbhash.centers.bounds.best_linear import best_known_linear
from lbhash.centers.constructions.linear_table import best_linear_code

# BEGIN of the list; `python -m tests.test_center_best_known` prints it.
BELOW: dict[int, str] = {
    7: ("141-142 "),
    8: ("60-61 76-77 88-89 119-121 158-159 161-163 "),
    9: (
        "42-43 45-46 50-51 53-54 58-59 61-62 78-79 106-110 122-127 129-134 139-143 146-147 "
        "154-156 161-166 177-181 185-186 210-211 217-218 220-221 234-235 241-242 248-249 "
    ),
    10: ("92-93 108-109 124-137 142-143 148-152 157-158 160-161 173-174 180-181 183-184 237-246 252-256 "),
    11: ("40-41 54-55 57-58 69-75 79-83 95-96 98-99 128-129 131-138 144-149 151-157 161-165 167-173 239-253 "),
    12: (
        "33-34 38-39 42-43 55-59 67-69 71-77 82-85 88-93 98-99 101-102 108-110 118-119 "
        "131-132 147-151 154-155 157-160 164-165 170-174 195-201 242-254 "
    ),
    13: (
        "31-32 40-41 43-45 49-50 52-54 57-60 69-71 73-78 94-95 107-111 117-121 139-144 "
        "150-163 167-171 197-209 214-220 229-235 245-251 "
    ),
    14: ("33-34 36-37 44-46 50-55 71-72 75-82 109-122 198-248 252-256 "),
    15: ("29-30 34-35 46-47 52-58 72-73 77-83 112-121 171-172 174-175 201-216 222-237 239-249 "),
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


def test_the_table_has_known_codes():
    # Simplex, Golay, Reed-Muller, extended BCH and quadratic-residue codes.
    known = {(7, 3): 4, (24, 12): 8, (32, 6): 16, (64, 10): 28, (128, 15): 56, (48, 16): 16, (46, 9): 20, (40, 7): 18}
    assert {cell: best_known_linear(*cell) for cell in known} == known
    assert best_known_linear(257, 9) is best_known_linear(3, 4) is best_known_linear(60, 17) is None


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
