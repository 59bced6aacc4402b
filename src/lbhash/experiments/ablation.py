"""What arranged centres and each part of the distilled guidance add to CSQ. Writes a part of ``docs/guidance.md``.

    python -m lbhash.experiments.ablation --data cifar10=FILE --data tiny-imagenet=FILE --data mosaic=FILE

All rows are cut from the training split. Beside the guidance with arranged centres stands CSQ that has them alone: what
it gains is theirs. Beside that with noise, with the teacher and with both stands CSQ whose own cross-entropy has the
teacher's targets, without any guidance: what that gains is the teacher's.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lbhash.evaluation import evaluate
from lbhash.experiments.page import check_part, markdown_table, replace_part
from lbhash.hasher import Hasher
from lbhash.objectives import CSQ, Task
from lbhash.objectives.guided import RECIPES
from lbhash.reproduce.guidance import CENTERS
from lbhash.reproduce.interval import Interval
from lbhash.reproduce.settings import Settings
from lbhash.reproduce.sources import Source
from lbhash.task_centers import ARRANGED

PART = "ablation"
OWN = RECIPES["distilled"]


class TaughtCSQ(CSQ):
    """CSQ whose targets are, for a share τ, the centres of the classes that the teacher takes a row for.

    The probability that bit k is 1 is (1 − τ)·(c_k + 1)/2 + τ·Σ_c p(c | row)·(c_k + 1)/2 / Σ_c p(c | row).
    """

    taught: Tensor

    def __init__(self, task: Task, *, share: float = OWN["teacher"]) -> None:
        super().__init__(task)
        assert task.teacher is not None
        says = task.teacher()
        self.share = share
        ones = (says @ (task.centers + 1) / 2) / says.sum(dim=1, keepdim=True).clamp(min=1e-6)
        self.register_buffer("taught", ones, persistent=False)

    def probabilities(self, labels: Tensor, index: Tensor) -> Tensor:
        """How probably each bit is to be 1."""
        return torch.lerp(super().probabilities(labels, index), self.taught[index], self.share)


VARIANTS: dict[str, dict[str, Any]] = {
    "CSQ": {"guided": False},
    "arranged, no guidance": {"guided": False, "centers": ARRANGED},
    "taught, no guidance": {"guided": False, "method": TaughtCSQ},
    "paper's guidance": {},
    "arranged": {"centers": ARRANGED},
    "noise alone": {"guidance": {"noise": OWN["noise"]}},
    "teacher alone": {"guidance": {"teacher": OWN["teacher"]}},
    "distilled": {"guidance": {"recipe": "distilled"}},
    "distilled, in place of BCE": {"guidance": {"recipe": "distilled", "mode": "replace"}},
}
"""Settings of the hasher; the first is what the others' lift is over."""


def main() -> None:
    """Train, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Source.of, action="append", help="NAME=FILE or digits; may be given often")
    parser.add_argument("--bits", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("docs/guidance.md"))
    given = parser.parse_args()
    try:
        check_part(given.out, PART)
        of = Settings(given.seeds, sources=tuple(given.data or ()), epochs=given.epochs, bits=tuple(given.bits))
        sources = [replace(source, validation=True) for source in of.all_sources() if source.dataset()]
    except (ValueError, OSError) as error:
        parser.error(str(error))
    lines = [row(source, bits, of.all_epochs(), of.all_seeds()) for source in sources for bits in of.bits]
    table = markdown_table(("data", "bits", *VARIANTS), lines, left=0)
    print(table)
    replace_part(given.out, PART, table)


def row(source: Source, bits: int, epochs: int, seeds: Sequence[int]) -> list[str]:
    """The host's mAP in %, and what each variant adds in points, with the same seeds."""
    found = {name: maps(source, bits, epochs, seeds, **of) for name, of in VARIANTS.items()}
    host, *others = found.values()
    added = [Interval.of(np.subtract(other, host)).shown(2) for other in others]
    return [source.name, str(bits), Interval.of(host).shown(2), *added]


def maps(source: Source, bits: int, epochs: int, seeds: Sequence[int], **settings: Any) -> list[float]:
    """mAP in % of the queries, a value a seed."""
    parts, classes = [source.training(seed)[0] for seed in seeds], source.classes()
    hasher = Hasher(bits, epochs=epochs, centers=CENTERS, device="cpu").set_params(**settings)
    return [100 * mean_ap(one, source) for one in hasher.fit_seeds(parts, classes, seeds)]


def mean_ap(hasher: Hasher, source: Source) -> float:
    """mAP of the hasher's queries."""
    data = source.dataset(hasher.seed)
    query, base = hasher.encode_part(data.query), hasher.encode_part(data.base)
    return evaluate(query, data.query.labels, base, data.base.labels, source.at(), bits=hasher.bits).map


if __name__ == "__main__":
    main()
