"""What the experiments that train have in common: their cells, and the words for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from lbhash.reproduce.runs.config import Cell
from lbhash.reproduce.runs.settings import Settings
from lbhash.reproduce.runs.sources import Source, UnsuitableData
from lbhash.reproduce.runs.store import Runs, complete

SETTING = """A head with one hidden layer of {hidden:,} on fixed embeddings, {epochs} epochs, batch 64, Adam at {lr:g}
with a decay of 0.1 every 10 epochs, {seeds}, class centers of the kind "best" unless said otherwise. The paper trains a
ResNet-50 end to end for 100 epochs, so that what carries over is the lift, not the level."""


def cell(settings: Settings, source: Source, method: str, recipe: str, bits: int, **more: Any) -> Cell:
    """A cell with the settings' epochs, learning rate and head."""
    epochs, lr, hidden = settings.all_epochs(), settings.rate(), settings.hidden
    return Cell(source, method, recipe, bits, epochs=epochs, lr=lr, hidden=hidden, **more)


def completed(settings: Settings, cells: Iterable[Cell]) -> Runs:
    """The runs of these cells, the missing ones made."""
    return complete(cells, settings.all_seeds(), settings.runs, settings.all_workers())


def setting_text(settings: Settings, sources: Sequence[Source]) -> str:
    """What was trained, on what, with which seeds, in Markdown."""
    epochs, lr, hidden = settings.all_epochs(), settings.rate(), settings.hidden
    own = SETTING.format(hidden=hidden, epochs=epochs, lr=lr, seeds=seeds_text(settings))
    return "\n\n".join([own, "\n".join(f"- {source}." for source in sources)])


def seeds_text(settings: Settings) -> str:
    """The seeds in words."""
    seeds = settings.all_seeds()
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"


def single_label(settings: Settings, need: str) -> list[Source]:
    """The sets of data with one label a row; ``UnsuitableData`` where there is none."""
    sources = [source for source in settings.all_sources() if not source.dataset().multi_label]
    if not sources:
        raise UnsuitableData(f"{need} needs data with one label a row, and these have several")
    return sources
