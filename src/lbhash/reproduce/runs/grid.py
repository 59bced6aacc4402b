"""What the experiments that train have in common: their grid of runs, and the text about it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from lbhash.reproduce.runs.config import FINAL, RunConfig
from lbhash.reproduce.runs.settings import METHODS, Settings
from lbhash.reproduce.runs.sources import Source, UnsuitableData
from lbhash.reproduce.runs.store import complete
from lbhash.reproduce.texts import text

BITS = (16, 32, 64)


def grid(
    settings: Settings,
    lengths: Sequence[int],
    trained: Iterable[tuple[str, str] | tuple[str, str, str]],
    *wanted: str,
    sources: Iterable[Source] | None = None,
) -> list[RunConfig]:
    """Return a run for each set of data, number of bits, and tuple of method, recipe and kind of centers ("best").

    Bits of the settings replace ``lengths``. ``wanted`` is what the runs must leave in addition to their final metrics.
    """
    sources = settings.all_sources() if sources is None else sources
    common: dict[str, Any] = {"wanted": frozenset(wanted), **settings.training()}
    return [
        RunConfig(source, method, recipe, bits, centers[0] if centers else "best", **common)
        for source, bits, (method, recipe, *centers) in product(sources, settings.bits_or(*lengths), trained)
    ]


def pairs(settings: Settings, *default: str) -> list[tuple[str, str]]:
    """Return method and recipe of every host and its guided form, one after the other."""
    return [(method, recipe) for method in settings.methods_or(*(default or METHODS)) for recipe in ("plain", "guided")]


def completed(settings: Settings, configs: Iterable[RunConfig], what: str = FINAL) -> dict[RunConfig, list[Any]]:
    """Return what each run left with each seed, after those that are missing were run."""
    configs, seeds = list(configs), settings.all_seeds()
    runs = complete(configs, seeds, settings.runs, settings.all_workers())
    return {config: [runs.read(config, seed, what) for seed in seeds] for config in configs}


def row_head(config: RunConfig) -> dict[str, Any]:
    """Return the first cells of a run's row."""
    return {"data": config.source.name, "bits": config.bits, "method": config.title}


def with_setting(about: str, settings: Settings, sources: Iterable[Source] | None = None) -> str:
    """Return a text with two paragraphs more: what was trained with which seeds, and on which data."""
    own = text("setting", seeds=seeds_text(settings), **settings.training())
    data = "\n".join(f"- {source}." for source in (settings.all_sources() if sources is None else sources))
    return "\n\n".join([about, own, data])


def seeds_text(settings: Settings) -> str:
    """Return the seeds in words."""
    seeds = settings.all_seeds()
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"


def single_label(settings: Settings, name: str) -> list[Source]:
    """Return the sets of data with one label a row; raise ``UnsuitableData`` if there is none."""
    sources = [source for source in settings.all_sources() if not source.dataset().multi_label]
    if not sources:
        raise UnsuitableData(f"{name} needs data with one label a row, and these have several")
    return sources
