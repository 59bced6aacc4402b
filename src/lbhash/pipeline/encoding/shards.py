"""The files of a folder of codes: how one is written, and what one says of itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lbhash.codes.io import CodeTable, read_facts, write_codes
from lbhash.codes.shards import Shard
from lbhash.data.images.loading import Damage
from lbhash.pipeline.encoding.source import Batch, Source, mark_of


@dataclass(frozen=True)
class Done:
    """A shard that is there.

    Attributes:
        shard: the shard.
        codes: how many it holds.
        damaged: its rows without a code.
    """

    shard: Shard
    codes: int
    damaged: tuple[Damage, ...]


def encode_shards(
    source: Source, shards: Sequence[Shard], folder: Path, advance: Callable[[int], None] = lambda rows: None
) -> None:
    """Encode shards, and write each as it is done.

    Args:
        source: the rows.
        shards: which to encode.
        folder: where they go.
        advance: is told how many more rows are encoded.
    """
    held: list[Batch] = []
    missing = 0  # rows of the shard that is being encoded
    for batch in source.batches(shards):
        missing = (missing or len(batch.shard)) - len(batch)
        held.append(batch)
        advance(len(batch))
        if not missing:
            _write_shard(source, batch.shard, held, folder)
            held = []


def find_done(folder: Path, shard: Shard, mark: str) -> Done | None:
    """A shard that is there and whole, by what its file says of itself; ``None`` where it is to be encoded.

    Args:
        folder: where it would be.
        shard: the shard.
        mark: of the source that it must be of (``mark_of``).
    """
    try:
        facts = read_facts(folder / shard.name)
        done = Done(shard, facts["count"], tuple(Damage(*damage) for damage in facts["damaged"]))
        said = (facts["mark"], facts["start"], facts["stop"])
    except (ValueError, KeyError, TypeError):
        return None
    whole = done.codes + len(done.damaged) == len(shard)
    return done if whole and said == (mark, shard.start, shard.stop) else None


def _write_shard(source: Source, shard: Shard, batches: Sequence[Batch], folder: Path) -> None:
    """Write the file of a shard; what is damaged is in its metadata, so that the two are there or not together."""
    damaged = [list(damage) for batch in batches for damage in batch.damaged]
    places = np.concatenate([batch.places for batch in batches])
    rows = source.rows[places]
    table = CodeTable(
        np.concatenate([batch.codes for batch in batches]),
        source.hasher.bits,
        rows,
        None if source.labels is None else source.labels[places],
        source.identity["model"],
        source.further(rows),
    )
    facts = {"mark": mark_of(source.identity), "start": shard.start, "stop": shard.stop, "damaged": damaged}
    write_codes(folder / shard.name, table, facts)
