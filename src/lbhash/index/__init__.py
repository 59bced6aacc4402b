"""Search in Hamming space: codes with their ids and attributes, in memory, in a folder or in Milvus."""

from __future__ import annotations

from lbhash.index.base import Index, Neighbors, Within, check_model
from lbhash.index.factory import build_index, check_build, code_attributes, open_index
from lbhash.index.files import DamagedIndexError
from lbhash.index.kinds import FlatIndex, InvertedFile
from lbhash.index.rerank import Reranked, rerank
from lbhash.index.store import LocalIndex

__all__ = [
    "DamagedIndexError",
    "FlatIndex",
    "Index",
    "InvertedFile",
    "LocalIndex",
    "Neighbors",
    "Reranked",
    "Within",
    "build_index",
    "check_build",
    "check_model",
    "code_attributes",
    "open_index",
    "rerank",
]
