"""Trainings as the experiments ask for them: everything of a run but its seed."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from lbhash.reproduce.runs.settings import EPOCHS, LR, METHOD_TITLES
from lbhash.reproduce.runs.sources import Source
from lbhash.utils.validation import check_choice

RECIPES: dict[str, dict[str, Any] | None] = {
    "plain": None,
    "guided": {},
    "replace": {"mode": "replace"},
    "balanced": {"weight": "balanced"},
}
"""The guidance's options by recipe: "plain" is the host without guidance, "guided" is the paper's X_D, in "replace" the
guidance takes the place of the host's loss, and in "balanced" it has the weight ``Objective.guidance_weight``."""

SUFFIXES = {"plain": "", "guided": "_d", "replace": "_replaced", "balanced": "_d_balanced"}

FINAL, TRAJECTORY, CODES, SECONDS = "final", "trajectory", "codes", "seconds"
EXTRAS = (TRAJECTORY, CODES, SECONDS)
"""What a run can leave in addition to its final metrics: mAP, ratio and loss by epoch; the codes of query and base; the
processor's seconds for each epoch."""


@dataclass(frozen=True)
class RunConfig:
    """A training run but for its seed: data, host method, one of ``RECIPES``, and settings of ``Hasher``.

    ``wanted`` are the ``EXTRAS`` that the run must leave; they do not make it another run.
    """

    source: Source
    method: str
    recipe: str = "plain"
    bits: int = 64
    centers: str = "best"
    epochs: int = EPOCHS
    hidden: int = 1024
    batch_size: int = 64
    lr: float = LR
    wanted: frozenset[str] = field(default=frozenset(), compare=False)

    def __post_init__(self) -> None:
        check_choice(self.recipe, "recipe", RECIPES)
        for extra in self.wanted:
            check_choice(extra, "wanted", EXTRAS)

    @property
    def label(self) -> str:
        """Method and recipe: ``csq``, ``csq_d``, ``csq_replaced``."""
        return self.method + SUFFIXES[self.recipe]

    @property
    def title(self) -> str:
        """The method as the paper writes it: ``CSQ``, ``CSQ_D``."""
        return METHOD_TITLES[self.method] + "_D" * (self.recipe == "guided")

    def name(self, seed: int) -> str:
        """Return the name of a run's files, which says all that decides what is in them."""
        return _name(self, seed)

    def wanting(self, *extras: str) -> RunConfig:
        """Return the same run with these extras."""
        return replace(self, wanted=self.wanted | set(extras))


@lru_cache(maxsize=4096)
def _name(config: RunConfig, seed: int) -> str:
    from lbhash.centers.targets import centers_fingerprint
    from lbhash.losses import METHODS, uses_centers

    options = RECIPES[config.recipe]
    if config.recipe == "balanced":
        options = {"weight": METHODS[config.method].guidance_weight}  # another weight makes another run
    parts = [config.source.name, config.label, f"{config.bits}bits", f"{config.epochs}epochs", f"seed{seed}"]
    if uses_centers(config.method, RECIPES[config.recipe] is not None):
        parts.append(centers_fingerprint(config.source.classes(), config.bits, config.centers, seed))
    rest = json.dumps([config.hidden, config.batch_size, config.lr, options])
    return "-".join([*parts, config.source.fingerprint(), f"settings{zlib.crc32(rest.encode()):08x}"])


def distinct(configs: Iterable[RunConfig]) -> list[RunConfig]:
    """Return each run once, with all extras that are wanted of it."""
    merged: dict[RunConfig, RunConfig] = {}
    for config in configs:
        merged[config] = merged.get(config, config).wanting(*config.wanted)
    return list(merged.values())
