"""Class centers of other papers beside arranged ones, with the same host and the same rows.

    python -m benchmarks.experiments.rival_centers --data clinc=FILE --data cifar10=FILE --data mosaic=FILE \
        --data tiny-imagenet=FILE --page docs/centers.md

The host is CSQ with its own settings, which were found with arranged centers. A fifth of the training rows is held
out, and a figure is the mAP of these, each a query to all others of them: no row of a base or a query is read. All
centers but those of "hungarian", "shc", "hyp2" and "arranged" are given to the classes in random order. ``--page``
names a page whose part "rival-centers" becomes the table, with each cell in a CSV file beside it. A cell that the CSV
has is not run again.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from benchmarks.experiments.page import check_part, markdown_table, read_csv, replace_part, write_csv
from benchmarks.experiments.seeds import fit_seeds
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from lbhash.centers import class_centers
from lbhash.centers.arrange import arrange_centers, confused_distance
from lbhash.centers.distance import minimum_distance, pairwise_distances
from lbhash.data import EmbeddingSplit, hold_out
from lbhash.evaluation.held_out import score_codes
from lbhash.hasher import Hasher
from lbhash.losses import Task, recommended
from lbhash.losses.csq import CSQ
from lbhash.reproduce.runs.sources import Source
from lbhash.training.confusion import confusion
from lbhash.trials.intervals import Interval
from lbhash.utils.labels import one_hot
from lbhash.utils.parallel import in_processes, print_progress

PART = "rival-centers"
KEY = ("data", "bits", "centers", "seeds", "epochs")
BITS = (16, 32, 64)

Words = npt.NDArray[np.int8]  # [C, bits] of ±1
Floats = npt.NDArray[np.float64]


class GivenCenters(CSQ):
    """CSQ with centers of ``WORDS``; after each epoch of "reassigned" they are given to the classes anew.

    Args:
        words: a key of ``WORDS``.
        lam: λ of CSQ.
        reassign: whether each epoch but the first begins with ``assigned``.
    """

    WORDS: ClassVar[dict[str, list[Words]]] = {}
    """Centers for each seed."""

    def __init__(self, task: Task, *, words: str, lam: float = 1e-4, reassign: bool = False) -> None:
        super().__init__(task, lam=lam)
        self.reassign = reassign
        self.centers.copy_(torch.from_numpy(self.WORDS[words][task.seed]).float())
        self.register_buffer("sums", torch.zeros_like(self.centers))

    def begin_epoch(self, epoch: int) -> None:
        """Give each class the center that agrees best with its outputs in the last epoch."""
        if self.reassign and epoch:
            words = self.centers.numpy().astype(np.int8)
            self.centers.copy_(torch.from_numpy(assigned(words, self.sums.numpy())).float())
        self.sums.zero_()

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a batch, a scalar."""
        hot = torch.from_numpy(one_hot(labels.numpy().astype(int), len(self.centers))).float()
        self.sums += hot.T @ logits.detach().tanh()
        return super().forward(logits, labels, index)


def assigned(words: Words, sums: npt.NDArray[np.floating]) -> Words:
    """Return the words in the order in which Σ_c ⟨word_c, sums_c / |sums_c|⟩ is largest (H. Kuhn, 1955)."""
    unit = sums / np.linalg.norm(sums, axis=1, keepdims=True).clip(min=1e-12)
    return words[linear_sum_assignment(-(unit @ words.T))[1]]


def promised(classes: int, bits: int) -> int:
    """Return the largest d with C Σ_{i ≤ d−2} (h over i) ≤ 2^h, by which MDS and SHC bound the distance.

    It is one more than the bound of Gilbert and Varshamov promises.
    """
    distance, volume = 1, 0
    while distance < bits and classes * (volume + math.comb(bits, distance - 1)) <= 2**bits:
        volume += math.comb(bits, distance - 1)
        distance += 1
    return distance


def separated(words: Words, least: int, sweeps: int = 50) -> Words:
    """Return MDS's centers: row by row as far from the others as can be, and at least ``least`` (ℓp-box ADMM).

    L. Wang et al., "Deep hashing with minimal-distance-separated hash centers", CVPR 2023: min_x Σ_j ⟨x, c_j⟩ over x in
    {±1}^h with ⟨x, c_j⟩ ≤ h − 2d. Of all sweeps the one with the largest mean + minimum − variance of the distances
    counts.
    """
    found, best, value = words.astype(np.float64), words, -math.inf
    for _ in range(sweeps):
        for row in range(len(found)):
            found[row] = _row(found[row], np.delete(found, row, axis=0), found.shape[1] - 2 * least)
        distances = pairwise_distances(found.astype(np.int8))[np.triu_indices(len(found), 1)]
        if (now := distances.mean() + distances.min() - distances.var()) > value:
            best, value = found.astype(np.int8), now
    return best


def _row(x: Floats, others: Floats, limit: float) -> Floats:
    """Return the row that ADMM finds; ρ grows from 1e-5 by a factor of 1.09 to 1e7."""
    bits, cost = len(x), others.sum(axis=0)
    solve = np.linalg.inv(2 * np.eye(bits) + others.T @ others)
    dual_box = dual_sphere = np.zeros(bits)
    slack = dual = np.zeros(len(others))
    box = sphere = x
    rho = 1e-5
    while rho < 1e7:
        wanted = box + sphere - (dual_box + dual_sphere + cost) / rho + others.T @ (limit - slack - dual / rho)
        x = solve @ wanted
        box = (x + dual_box / rho).clip(-1, 1)
        sphere = x + dual_sphere / rho
        sphere = sphere * math.sqrt(bits) / max(np.linalg.norm(sphere), 1e-12)
        slack = (limit - others @ x - dual / rho).clip(min=0)
        dual_box = dual_box + rho * (x - box)
        dual_sphere = dual_sphere + rho * (x - sphere)
        dual = dual + rho * (others @ x + slack - limit)
        if max(np.abs(x - box).max(), np.abs(x - sphere).max()) < 1e-4:
            break
        rho *= 1.09
    return np.where(x >= 0, 1.0, -1.0)


def semantic(words: Words, confused: Floats, least: int) -> Words:
    """Return SHC's centers, from those of MDS: flips of a bit that lower ‖S − CCᵀ/h‖² + Σ_{k≠l} ⟨c_k, c_l⟩ / h.

    Their authors (TOIS 2025) have the second sum without 1/h, and ADMM. S are the confusions, symmetric, each row
    centered and scaled into [−1, 1], with a diagonal of 1. A flip must leave all classes ``least`` bits apart, or as
    far as they were.
    """
    wanted = similarities(confused)
    c, bits = words.astype(np.float64), words.shape[1]
    least = min(least, minimum_distance(words))
    improved = True
    while improved:
        improved = False
        for k, bit in product(range(len(c)), range(bits)):
            others = np.arange(len(c)) != k
            before = c[others] @ c[k]
            after = before - 2 * c[k, bit] * c[others, bit]
            if (bits - after).min() < 2 * least:
                continue
            target = wanted[k, others]
            change = 2 * (((target - after / bits) ** 2) - ((target - before / bits) ** 2)).sum()
            change += 2 * (after - before).sum() / bits
            if change < -1e-9:
                c[k, bit] *= -1
                improved = True
    return c.astype(np.int8)


def similarities(confused: Floats) -> Floats:
    """Return S of SHC."""
    own = np.eye(len(confused), dtype=bool)
    both = np.where(own, 0, confused + confused.T)
    both = np.where(own, 0, both - both.sum(axis=1, keepdims=True) / (len(both) - 1))
    scaled = both / np.abs(both).max(axis=1, keepdims=True).clip(min=1e-12)
    return np.where(own, 1, (scaled + scaled.T) / 2)


class Rows:
    """Training rows, and what centers are made of."""

    def __init__(self, split: EmbeddingSplit, classes: int, bits: int, epochs: int) -> None:
        self.split, self.classes, self.bits, self.epochs = split, classes, bits, epochs
        self.confused = confusion(split, classes)
        self._separated: Words | None = None

    def designed(self, seed: int, kind: str = "best-ratio") -> Words:
        """Return words in random order."""
        words = class_centers(self.classes, self.bits, kind=kind, seed=seed)
        return words[np.random.default_rng(seed).permutation(self.classes)]

    def arranged(self, seed: int) -> Words:
        """Return arranged centers, as ``lbhash train`` has them."""
        return arrange_centers(class_centers(self.classes, self.bits, kind="best-ratio"), self.confused, seed=seed)

    def hungarian(self, seed: int) -> Words:
        """Return words that are assigned once, to the class means of ITQ's outputs."""
        return assigned(self.designed(seed), self._means(Hasher(self.bits, "itq", seed=seed).fit_split(self.split, 0)))

    def hyp2(self, seed: int) -> Words:
        """Return the signs of the class means of a HyP² model's outputs, in the place of its proxies."""
        hasher = Hasher(self.bits, "hyp2", pull="none", epochs=self.epochs, seed=seed, device="cpu")
        return np.where(self._means(hasher.fit_split(self.split, self.classes)) >= 0, 1, -1).astype(np.int8)

    def mds(self, seed: int) -> Words:
        """Return MDS's centers in random order."""
        return self._mds()[np.random.default_rng(seed).permutation(self.classes)]

    def shc(self, seed: int) -> Words:
        """Return SHC's centers."""
        return semantic(self.mds(seed), self.confused, promised(self.classes, self.bits))

    def _mds(self) -> Words:
        if self._separated is None:
            kind = "hadamard" if self.classes <= 2 * self.bits else "random"
            start = class_centers(self.classes, self.bits, kind=kind)
            self._separated = separated(start, promised(self.classes, self.bits))
        return self._separated

    def _means(self, hasher: Hasher) -> Floats:
        outputs = np.concatenate([np.tanh(hasher.model_.outputs(chunk)) for chunk in self.split.chunks()])
        return one_hot(self.split.labels, self.classes).T.astype(np.float64) @ outputs


KINDS: dict[str, Callable[[Rows, int], Words]] = {
    "random": lambda rows, seed: rows.designed(seed, "random"),
    "hadamard": lambda rows, seed: rows.designed(seed, "hadamard"),
    "best-ratio": Rows.designed,
    "hungarian": Rows.hungarian,
    "reassigned": Rows.designed,
    "mds": Rows.mds,
    "shc": Rows.shc,
    "hyp2": Rows.hyp2,
    "arranged": Rows.arranged,
}
"""Centers by the name of the table."""


def run(source: Source, cell: dict[str, str]) -> dict[str, str]:
    """Train a cell's seeds, and return its line."""
    kind, bits, seeds, epochs = cell["centers"], int(cell["bits"]), int(cell["seeds"]), int(cell["epochs"])
    split, numbers = source.training()
    fitted, validation = hold_out(split, 0.2, 0)
    rows = Rows(fitted, len(numbers), bits, epochs)
    words = [KINDS[kind](rows, seed) for seed in range(seeds)]
    GivenCenters.WORDS[kind] = words
    own = recommended("csq", "none", bits)
    options = own.pop("options", {}) | {"words": kind, "reassign": kind == "reassigned"}
    hasher = Hasher(
        bits, GivenCenters, pull="none", epochs=epochs, centers="best-ratio", options=options, device="cpu", **own
    )
    maps = [
        100 * score_codes(one.encode_split(validation), validation.labels, rows.classes, bits, with_map=True).map
        for one in fit_seeds(hasher, fitted, rows.classes, range(seeds))
    ]
    found = Interval.of(maps)
    line = {"map": found.mean, "half": found.half, "min D": fmean(map(minimum_distance, words))}
    line["confused D - mean D"] = fmean(confused_distance(one, rows.confused) for one in words)
    return {**cell, **{name: "" if value is None else f"{value:.3f}" for name, value in line.items()}}


def table(lines: list[dict[str, str]]) -> str:
    """Return the mean mAP over the data sets by kind and length, and over all."""
    columns = list(dict.fromkeys(line["bits"] for line in lines))
    rows = []
    for kind in KINDS:
        own = [[float(line["map"]) for line in lines if (line["centers"], line["bits"]) == (kind, b)] for b in columns]
        shown = [f"{fmean(maps):.1f}" if maps else "–" for maps in (*own, [one for maps in own for one in maps])]
        rows.append([kind, *shown])
    return markdown_table(["centers", *(f"{bits} bits" for bits in columns), "mean"], rows, left=0)


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, and write table and CSV."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", action="append", required=True, metavar="NAME=FILE", type=Source.of)
    parser.add_argument("--centers", nargs="+", choices=list(KINDS), default=list(KINDS))
    parser.add_argument("--bits", nargs="+", type=int, default=list(BITS))
    parser.add_argument("--seeds", type=int, default=5, help="how many, from 0")
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--page", type=Path, default=Path("docs/centers.md"))
    parser.add_argument("--workers", type=int, default=1, help="cells at a time, one thread each")
    given = parser.parse_args(arguments)
    try:
        check_part(given.page, PART)
    except ValueError as error:
        parser.error(str(error))
    file = given.page.with_name("rival-centers.csv")
    lines = read_csv(file)
    done = {tuple(line[name] for name in KEY) for line in lines}
    tasks: dict[str, tuple[Any, ...]] = {}
    for source, bits, kind in product(given.data, given.bits, given.centers):
        key = (source.name, str(bits), kind, str(given.seeds), str(given.epochs))
        if key not in done:
            tasks[" ".join(key)] = (source, dict(zip(KEY, key, strict=True)))
    found = print_progress(
        in_processes(tasks, run, given.workers), len(tasks), lambda name, line: f"{name}: mAP {line['map']}"
    )
    for _, line in found:
        lines.append(line)
        write_csv(file, lines)
        replace_part(given.page, PART, table(lines))


if __name__ == "__main__":
    main()
