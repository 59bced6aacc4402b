"""The embedded kinds by name."""

from __future__ import annotations

from lbhash.index.flat import FlatIndex
from lbhash.index.hnsw import SmallWorldGraph
from lbhash.index.ivf import InvertedFile
from lbhash.index.local import LocalIndex
from lbhash.index.mih import MultiIndexHashing

KINDS: dict[str, type[LocalIndex]] = {
    kind.kind: kind for kind in (FlatIndex, MultiIndexHashing, InvertedFile, SmallWorldGraph)
}


def kind_of(name: str) -> type[LocalIndex]:
    """The kind of that name; ``ValueError`` where there is none."""
    if name not in KINDS:
        raise ValueError(f"kind is {name!r}; it must be one of {', '.join(KINDS)}")
    return KINDS[name]
