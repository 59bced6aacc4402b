"""Search in Hamming space: codes with their ids and metadata, in memory, in a folder or in Milvus."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lbhash.index.factory  # noqa: F401  # registers Milvus addresses
from lbhash.index.files import DamagedIndexError
from lbhash.index.ids import UnknownIdError
from lbhash.index.results import SearchResult
from lbhash.index.store import Index
from lbhash.utils.lazy import lazy_names

if TYPE_CHECKING:
    from lbhash.index.export import export_index

__all__ = ["DamagedIndexError", "Index", "SearchResult", "UnknownIdError", "export_index"]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, {"export_index": "export"})  # imports pyarrow.parquet
