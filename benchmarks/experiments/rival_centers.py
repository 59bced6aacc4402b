"""Class centers of other papers beside arranged ones, with the same host and the same rows.

    python -m benchmarks.experiments.rival_centers --data clinc=FILE --data cifar10=FILE --data mosaic=FILE \
        --data tiny-imagenet=FILE --page docs/centers.md

The host is CSQ with its own settings, which were found with arranged centers. A fifth of the training rows is held
out, and a figure is the mAP of these, each a query to all others of them: no row of a base or a query is read. All
centers but those of "hungarian", "shc", "hyp2" and "arranged" are given to the classes in random order. ``--page``
names a page whose part "rival-centers" becomes the table, with each cell in a CSV file beside it. A cell that the CSV
has is not run again. Without ``--data`` nothing is run, and the part is made from the CSV.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import product
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from benchmarks.experiments.shared import (
    Others,
    half_widths,
    held_out,
    markdown,
    missing,
    options,
    read_csv,
    run,
    show,
    write_csv,
)
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from lbhash.centers import class_centers
from lbhash.centers.arrange import arrange_centers, confused_distance
from lbhash.centers.distance import minimum_distance, pairwise_distances
from lbhash.data.split import EmbeddingSplit
from lbhash.hasher import Hasher, fit_split
from lbhash.losses import Task
from lbhash.losses.csq import CSQ
from lbhash.losses.registry import recommended
from lbhash.training.confusion import confusion
from lbhash.training.settings import grouped
from lbhash.trials.intervals import Interval
from lbhash.trials.questions import Question, Values
from lbhash.trials.stored import Stored
from lbhash.trials.trial import Trial
from lbhash.trials.ways import Store, codes, count_classes
from lbhash.utils.labels import one_hot

PART = "rival-centers"
KEY = ["data", "bits", "centers", "seeds", "epochs"]
FIGURES = ["map", "half", "min D", "confused D - mean D"]

Words = npt.NDArray[np.int8]  # [C, bits] of ±1
Floats = npt.NDArray[np.float64]


class GivenCenters(CSQ):
    """CSQ with centers of ``WORDS``; after each epoch of "reassigned" they are given to the classes anew.

    Args:
        words: a key of ``WORDS``.
        lam: λ of CSQ.
        reassign: whether each epoch but the first begins with ``assigned``.
    """

    WORDS: ClassVar[dict[str, Words]] = {}
    """Centers of the model that is trained now."""

    def __init__(self, task: Task, *, words: str, lam: float = 1e-4, reassign: bool = False) -> None:
        super().__init__(task, lam=lam)
        self.reassign = reassign
        self.centers.copy_(torch.from_numpy(self.WORDS[words]).float())
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


@cache
def mds_words(classes: int, bits: int) -> Words:
    """Return MDS's centers, which take long."""
    start = class_centers(classes, bits, kind="hadamard" if classes <= 2 * bits else "random")
    return separated(start, promised(classes, bits))


class Rows:
    """Training rows, and what centers are made of."""

    def __init__(self, split: EmbeddingSplit, classes: int, bits: int, epochs: int) -> None:
        self.split, self.classes, self.bits, self.epochs = split, classes, bits, epochs
        self.confused = confusion(split, classes)

    def designed(self, seed: int, kind: str = "best-ratio") -> Words:
        """Return words in random order."""
        words = class_centers(self.classes, self.bits, kind=kind, seed=seed)
        return words[np.random.default_rng(seed).permutation(self.classes)]

    def arranged(self, seed: int) -> Words:
        """Return arranged centers, as ``lbhash train`` has them."""
        return arrange_centers(class_centers(self.classes, self.bits, kind="best-ratio"), self.confused, seed=seed)

    def hungarian(self, seed: int) -> Words:
        """Return words that are assigned once, to the class means of ITQ's outputs."""
        return assigned(
            self.designed(seed), self._means(fit_split(Hasher(self.bits, method="itq", seed=seed), self.split, 0))
        )

    def hyp2(self, seed: int) -> Words:
        """Return the signs of the class means of a HyP² model's outputs, in the place of its proxies."""
        hasher = Hasher(self.bits, method="hyp2", pull="none", epochs=self.epochs, seed=seed, device="cpu")
        return np.where(self._means(fit_split(hasher, self.split, self.classes)) >= 0, 1, -1).astype(np.int8)

    def mds(self, seed: int) -> Words:
        """Return MDS's centers in random order."""
        return mds_words(self.classes, self.bits)[np.random.default_rng(seed).permutation(self.classes)]

    def shc(self, seed: int) -> Words:
        """Return SHC's centers."""
        return semantic(self.mds(seed), self.confused, promised(self.classes, self.bits))

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


@dataclass(frozen=True)
class WithCenters(Stored):
    """Codes beside their class centers: ``between`` are distances of these, by name."""

    between: Mapping[str, float] = field(default_factory=dict)


class OthersAndCenters(Others):
    """The mAP of held-out rows, and how far apart the centers are."""

    def answers(self, stored: Stored) -> dict[str, Values]:
        """Return the figures, ``float64 [1]`` each."""
        assert isinstance(stored, WithCenters)
        return super().answers(stored) | {name: np.array([value]) for name, value in stored.between.items()}


def trained(train: EmbeddingSplit, *, kind: str, bits: int, seed: int, epochs: int) -> Iterator[Store]:
    """Yield the codes of CSQ with centers of a kind."""
    rows = Rows(train, count_classes(train), bits, epochs)
    GivenCenters.WORDS[kind] = words = KINDS[kind](rows, seed)
    own = {"pull": "none", "centers": "best-ratio", "device": "cpu"} | recommended("csq", "none", bits)
    own["options"] = own.get("options", {}) | {"words": kind, "reassign": kind == "reassigned"}
    began, hasher = (
        time.process_time(),
        Hasher(**grouped(bits=bits, method=GivenCenters, epochs=epochs, seed=seed, **own)),
    )
    model = fit_split(hasher, train, rows.classes).model_
    store = codes(kind, bits, "", model, time.process_time() - began, by=("itself",))
    between = {"min D": minimum_distance(words), "confused D - mean D": confused_distance(words, rows.confused)}

    def beside(question: Question) -> Iterator[Stored]:
        for stored in store(question):
            yield WithCenters(**vars(stored), between=between)

    yield beside


def trials(cells: pd.DataFrame, given: argparse.Namespace) -> Iterator[tuple[dict[str, Any], Trial]]:
    """Yield a trial for each seed of the cells."""
    for source in given.data:
        train, others = held_out(source)
        question = OthersAndCenters(**vars(others))
        for cell in cells[cells["data"] == source.name].to_dict("records"):
            for seed in range(given.seeds):
                fit = partial(trained, kind=cell["centers"], bits=int(cell["bits"]), seed=seed, epochs=given.epochs)
                yield cell | {"seed": seed}, Trial(fit, train, (question,))


def lines_of(found: pd.DataFrame) -> pd.DataFrame:
    """Return a line for each cell: means over the seeds, and half of the interval of mAP, as text."""
    by = found.assign(map=100 * found["map"]).groupby(KEY, sort=False)
    made = by["map"].agg(lambda maps: Interval.of(maps).mean).to_frame("map")
    made["half"] = half_widths(by["map"])
    made[FIGURES[2:]] = by[FIGURES[2:]].mean()
    return made.map("{:.3f}".format).replace("nan", "").reset_index()


def table(lines: pd.DataFrame) -> str:
    """Return the mean mAP over the data sets by kind and length, and over all."""
    maps = lines.assign(map=lines["map"].astype(float))
    cells = maps.pivot_table("map", "centers", "bits", sort=False).add_suffix(" bits")
    cells["mean"] = maps.groupby("centers")["map"].mean()
    shown = cells.map("{:.1f}".format).replace("nan", "–").reindex([kind for kind in KINDS if kind in cells.index])
    return markdown(shown.reset_index())


def main(arguments: list[str] | None = None) -> None:
    """Run what is missing, and write table and CSV."""
    parser = options(__doc__, PART, "docs/centers.md", data=[], bits=(16, 32, 64), seeds=5, epochs=15)
    parser.add_argument("--centers", nargs="+", choices=list(KINDS), default=list(KINDS))
    given = parser.parse_args(arguments)
    file = given.page.with_name("rival-centers.csv")
    lines = read_csv(file, [*KEY, *FIGURES])
    every = product([one.name for one in given.data], given.bits, given.centers, [given.seeds], [given.epochs])
    cells = missing(pd.DataFrame(every, columns=KEY, dtype=str), lines, KEY)
    if len(cells):
        lines = pd.concat([lines, lines_of(run(trials(cells, given), given))])
        write_csv(lines, file)
    show(table(lines), PART, given.page)


if __name__ == "__main__":
    main()
