"""What all experiments can be told."""

from __future__ import annotations

from dataclasses import dataclass

from lbhash.labels import check_count


@dataclass(frozen=True)
class Settings:
    """How an experiment is run.

    Attributes:
        seeds: repetitions of what is random.
        seed: of the first; the others follow it.
        data: a file or a name of data, for an experiment that takes some.
    """

    seeds: int = 5
    seed: int = 0
    data: str | None = None

    def __post_init__(self) -> None:
        check_count(self.seeds, "seeds")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise TypeError(f"seed is {self.seed!r}; it must be an integer of at least 0")
        if self.seed < 0:
            raise ValueError(f"seed is {self.seed}; it must be at least 0")

    def all_seeds(self) -> range:
        """The seeds of the repetitions."""
        return range(self.seed, self.seed + self.seeds)
