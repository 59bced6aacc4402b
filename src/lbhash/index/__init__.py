"""Search in Hamming space: codes with their ids and metadata, in memory, in a folder or in Milvus."""

from __future__ import annotations

from lbhash.index.base import BaseIndex, check_model
from lbhash.index.factory import build_index, check_build, metadata_of_codes
from lbhash.index.files import DamagedIndexError
from lbhash.index.ids import UnknownIdError
from lbhash.index.results import SearchResult
from lbhash.index.store import Index

__all__ = [
    "BaseIndex",
    "DamagedIndexError",
    "Index",
    "SearchResult",
    "UnknownIdError",
    "build_index",
    "check_build",
    "check_model",
    "metadata_of_codes",
]
