"""What an attack is, and what it counts."""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

OUTCOMES = {
    "survived": "right answer or rebuilt",
    "refused": "refused in one line",
    "wrong": "silently wrong",
    "crashed": "crash or traceback",
    "over": "limit passed",
}
"""How a fault may end, and the heading of its column. The last three are what must not be."""


@dataclass
class Run:
    """One attack under way: its budget, its random numbers, and what its faults came to.

    An attack goes ``for rng in run.faults(): …`` and says once for each fault how it ended. One that tries many at a
    time, as a load does, may instead look at ``run.over`` and count with ``run.count``. ``run.folder`` is its own; in
    ``run.shared`` is what several attacks use and none changes.
    """

    name: str
    folder: Path
    shared: Path
    seed: int
    minutes: float
    enough: float = float("inf")
    only: int | None = None
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)
    number: int = -1

    def __post_init__(self) -> None:
        self.started = time.monotonic()

    @property
    def over(self) -> bool:
        """Whether time is up or enough was tried; at least one fault is tried always."""
        tried = self.counts.total()
        return tried > 0 and (tried >= self.enough or time.monotonic() - self.started > 60 * self.minutes)

    def faults(self) -> Iterator[random.Random]:
        """Yield each fault's own random numbers, which follow from seed, name and number: any can be repeated alone."""
        self.started = time.monotonic()  # what was prepared before does not count
        for number in itertools.count() if self.only is None else [self.only]:
            self.number = number
            yield random.Random(f"{self.seed} {self.name} {number}")
            if self.over:
                return

    def count(self, outcome: str, what: str = "", times: int = 1) -> None:
        """Count a fault under its outcome; ``what`` says which and why, and is kept for those that must not be."""
        assert outcome in OUTCOMES
        self.counts[outcome] += times
        if outcome in ("wrong", "crashed", "over"):
            finding = f"{self.name}, seed {self.seed}, fault {self.number}: {OUTCOMES[outcome]}: {what}"
            if len(self.findings) < 20:
                print(finding, file=sys.stderr, flush=True)
                self.findings.append(finding[:2000])

    def note(self, key: str, value: object) -> None:
        """Keep a figure beside the counts, such as the highest memory or latency."""
        self.notes[key] = str(value)


@dataclass(frozen=True)
class Attack:
    """A program that tries faults until its budget is spent."""

    name: str
    what: str
    enough: float
    program: Callable[[Run], None]


ATTACKS: dict[str, Attack] = {}


def attack(name: str, what: str, enough: float = float("inf")) -> Callable[[Callable[[Run], None]], Callable]:
    """Register a function as the attack ``name``; ``what`` is its line in the table.

    ``enough`` faults end it before its time, where there are no more to try or the table asks for so many.
    """

    def register(program: Callable[[Run], None]) -> Callable[[Run], None]:
        ATTACKS[name] = Attack(name, what, enough, program)
        return program

    return register
