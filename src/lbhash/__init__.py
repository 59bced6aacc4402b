"""Learning to hash, guided by a lower bound of the codes' performance.

``Hasher`` learns codes, ``Index`` searches them, ``evaluate`` measures their quality, and ``compare`` finds
alternatives. Heavy libraries are loaded on first use, so importing this package is fast.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from lbhash.utils.lazy import lazy_names
from lbhash.utils.version import __version__

if TYPE_CHECKING:
    from lbhash.codes import convert, hamming_distances, pack, unpack
    from lbhash.codes.io import CodeTable, read_codes, write_codes
    from lbhash.comparison.result import Comparison
    from lbhash.comparison.study import compare
    from lbhash.data import load_dataset
    from lbhash.evaluation.report import Report, evaluate
    from lbhash.hasher import Hasher
    from lbhash.index import Index, SearchResult
    from lbhash.training.settings import TrainingArguments

# Let waiting threads of FAISS and Numba sleep; otherwise they waste time slices beside other programs.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def _use_one_thread() -> None:
    if (faiss := sys.modules.get("faiss")) is not None:
        faiss.omp_set_num_threads(1)


# A forked process has none of its parent's threads; FAISS would wait for them for ever.
if hasattr(os, "register_at_fork"):  # all but Windows
    os.register_at_fork(after_in_child=_use_one_thread)

__all__ = [
    "CodeTable",
    "Comparison",
    "Hasher",
    "Index",
    "Report",
    "SearchResult",
    "TrainingArguments",
    "__version__",
    "compare",
    "convert",
    "evaluate",
    "hamming_distances",
    "load_dataset",
    "pack",
    "read_codes",
    "unpack",
    "write_codes",
]


if not TYPE_CHECKING:
    __getattr__ = lazy_names(
        __name__,
        {
            "CodeTable": "codes.io",
            "Comparison": "comparison.result",
            "Hasher": "hasher",
            "Index": "index",
            "Report": "evaluation.report",
            "SearchResult": "index",
            "TrainingArguments": "training.settings",
            "compare": "comparison.study",
            "convert": "codes",
            "evaluate": "evaluation.report",
            "hamming_distances": "codes",
            "load_dataset": "data",
            "pack": "codes",
            "read_codes": "codes.io",
            "unpack": "codes",
            "write_codes": "codes.io",
        },
        {
            **dict.fromkeys(("read_index", "load_index", "open_index"), "Index.open(path)"),
            **dict.fromkeys(("index_factory", "IndexBinaryFlat", "FlatIndex"), "Index(bits, kind)"),
            **dict.fromkeys(("quantize_embeddings", "encode"), "Hasher(bits).fit(X).encode(X)"),
            **dict.fromkeys(("packbits", "unpackbits"), "pack(values) and unpack(codes, bits)"),
            **dict.fromkeys(("bound", "Bound"), "lbhash.evaluation.bound"),
            "class_centers": "lbhash.centers.class_centers",
        },
    )


def __dir__() -> list[str]:
    return __all__
