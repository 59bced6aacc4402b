"""All cyclic codes of small dimension: how ``lbhash.centers.constructions.cyclic`` was found.

    python -m benchmarks.code_search.cyclic_codes --length 51 --dimension 8

prints the largest minimum distance of the cyclic codes of that length and dimension whose check polynomial has at most
three irreducible factors, and such a polynomial.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import combinations

from lbhash.centers.constructions.bch import cyclotomic_coset, minimal_polynomial
from lbhash.centers.constructions.cyclic import cyclic_generator
from lbhash.centers.constructions.galois_field import PRIMITIVE_POLYNOMIALS, galois_field, multiply
from lbhash.centers.constructions.linear import span
from lbhash.codes import hamming_distances


def main() -> None:
    """Enumerate, print the best."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, required=True, metavar="N", help="odd")
    parser.add_argument("--dimension", type=int, required=True, metavar="K", help="at most 12")
    given = parser.parse_args()
    if given.length < 3 or given.length % 2 == 0 or not 1 <= given.dimension <= 12:
        parser.error("length must be odd and at least 3, and dimension from 1 to 12")
    found = best_cyclic(given.length, given.dimension)
    if found is None:
        parser.exit(1, f"there is no such code of length {given.length} and dimension {given.dimension}\n")
    print(f"[{given.length}, {given.dimension}, {found[0]}] check polynomial {found[1]:#x}")


def best_cyclic(n: int, k: int) -> tuple[int, int] | None:
    """The largest minimum distance and a check polynomial that has it; None if no code has the dimension."""
    best = None
    for check_poly in check_polynomials(n, k):
        words = span(cyclic_generator(n, check_poly))
        distance = int(hamming_distances(words[1:], words[:1]).min())
        if best is None or distance > best[0]:
            best = distance, check_poly
    return best


def check_polynomials(n: int, k: int) -> Iterator[int]:
    """Products of up to three irreducible divisors of x^n - 1, of degree k together."""
    m = next((m for m in PRIMITIVE_POLYNOMIALS if (2**m - 1) % n == 0), None)
    if m is None:
        return
    field = galois_field(m)
    step = field.order // n
    cosets = {min(coset): coset for i in range(n) for coset in [cyclotomic_coset(i, n)]}.values()
    for count in (1, 2, 3):
        for chosen in combinations(cosets, count):
            if sum(map(len, chosen)) == k:
                product = 1
                for coset in chosen:
                    product = multiply(product, minimal_polynomial([step * i for i in coset], field))
                yield product


if __name__ == "__main__":
    main()
