"""Learning to hash, guided by a lower bound of the codes' performance.

``Hasher`` learns codes, ``evaluate`` and ``bound`` tell how good they are, ``class_centers`` puts the classes apart.
Heavy libraries are loaded where they are first used, so that importing this package costs next to nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lbhash.utils.lazy import lazy_names
from lbhash.utils.version import __version__

if TYPE_CHECKING:
    from lbhash.centers import class_centers
    from lbhash.comparison.study import compare
    from lbhash.evaluation.bound import Bound, bound
    from lbhash.evaluation.report import Report, evaluate
    from lbhash.hasher import Hasher

# Threads of FAISS and Numba sleep while they wait for each other: else, beside other programs, they waste their turns.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

__all__ = ["Bound", "Hasher", "Report", "__version__", "bound", "class_centers", "compare", "evaluate"]


__getattr__ = lazy_names(
    __name__,
    {
        "Bound": "evaluation.bound",
        "Hasher": "hasher",
        "Report": "evaluation.report",
        "bound": "evaluation.bound",
        "class_centers": "centers",
        "compare": "comparison.study",
        "evaluate": "evaluation.report",
    },
)


def __dir__() -> list[str]:
    return __all__
