"""How far the arrangement of class centers is from the best: its energy beside a bound that no words are below.

    python -m benchmarks.experiments.arrangement_bound --data clinc=FILE --data cifar10=FILE --data mosaic=FILE \
        --data tiny-imagenet=FILE --out docs/arrangement-bound.csv

The energy is that of ``lbhash.centers.arrange``, E = Σ_cd (D(c, d) − w_cd)², here without pairs that count twice. The
bound leaves out that words are of ±1: with their inner products G, D = (h − G)/2, and any G is positive semidefinite
with a diagonal of h, and as small as the least distance asks. The nearest such matrix to the wanted one is a convex
problem (N. Higham, IMA J. Numer. Anal. 2002), whose dual is below it everywhere (S. Boyd and L. Xiao, SIAM J. Matrix
Anal. 2005), so that the bound is rigorous wherever the search for it ends.
"""

from __future__ import annotations

import argparse
import math
from itertools import product
from pathlib import Path
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pandas as pd
from benchmarks.experiments.shared import write_csv
from scipy.optimize import minimize

from lbhash.centers import arrange, class_centers
from lbhash.centers.distance import mean_distance, minimum_distance, pairwise_distances
from lbhash.data.holdout import hold_out
from lbhash.reproduce.runs.sources import Source
from lbhash.training.confusion import confusion

Floats = npt.NDArray[np.float64]


def wanted_distances(words: npt.NDArray[np.int8], confused: Floats) -> Floats:
    """Return the distances that the energy wants, ``[C, C]``."""
    return mean_distance(words) * (1 - arrange.PULL * arrange.excess_confusion(confused, len(words)))


def energy(words: npt.NDArray[np.int8], wanted: Floats) -> float:
    """Return E over all pairs of classes."""
    return float(np.square(pairwise_distances(words) - wanted)[np.triu_indices(len(words), 1)].sum())


def least_energy(wanted: Floats, bits: int, least: int) -> float:
    """Return a bound that the energy of no words of so many bits is below, if all are ``least`` bits apart."""
    classes, nearest = len(wanted), bits - 2 * least
    target = bits - 2 * wanted
    np.fill_diagonal(target, bits)
    upper = np.triu_indices(classes, 1)

    def dual(x: Floats) -> tuple[float, Floats]:
        y, z = x[:classes], np.zeros(target.shape)
        z[upper] = x[classes:]
        values, vectors = np.linalg.eigh(target + np.diag(y) - z - z.T)
        positive = (vectors * values.clip(min=0)) @ vectors.T
        value = np.square(values.clip(min=0)).sum() / 2 - bits * y.sum() + 2 * nearest * z.sum()
        return float(value), np.concatenate([np.diag(positive) - bits, 2 * (nearest - positive[upper])])

    limits = [(None, None)] * classes + [(0, None)] * len(upper[0])
    found = minimize(dual, np.zeros(len(limits)), jac=True, method="L-BFGS-B", bounds=limits, options={"maxiter": 300})
    # ½‖G − A‖² is at least ½‖A‖² − dual(x) for any x; E has each pair once, and a quarter of the square.
    return max(0.0, (np.square(target).sum() / 2 - found.fun) / 4)


def compared(source: Source, bits: int) -> dict[str, object]:
    """Return a line of the table."""
    split, numbers = source.training()
    confused = confusion(hold_out(split, 0.2, 0)[0], len(numbers))
    designed = class_centers(len(numbers), bits, kind="best-ratio")
    arranged = arrange.arrange_centers(designed, confused)
    longer = {"_STEPS": 10 * arrange._STEPS, "_MOST_STEPS": 10 * arrange._MOST_STEPS}
    with patch.multiple(arrange, **longer):
        slowly = arrange.arrange_centers(designed, confused)
    wanted = wanted_distances(designed, confused)
    least = math.ceil(round((1 - arrange.SLACK) * minimum_distance(designed), 6))
    made = {"designed": designed, "arranged": arranged, "ten times the moves": slowly}
    found = {name: energy(words, wanted) for name, words in made.items()} | {"bound": least_energy(wanted, bits, least)}
    pairs = len(numbers) * (len(numbers) - 1) / 2
    return {"data": source.name, "bits": bits} | {name: f"{np.sqrt(e / pairs):.2f}" for name, e in found.items()}


def main(arguments: list[str] | None = None) -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, metavar="NAME=FILE", type=Source.of)
    parser.add_argument("--bits", nargs="+", type=int, default=[16, 32, 64])
    parser.add_argument("--out", type=Path, default=Path("docs/arrangement-bound.csv"))
    given = parser.parse_args(arguments)
    write_csv(pd.DataFrame([compared(*cell) for cell in product(given.data, given.bits)]), given.out)


if __name__ == "__main__":
    main()
