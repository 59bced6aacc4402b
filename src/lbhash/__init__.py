"""Learning to hash, guided by a lower bound of the codes' performance.

``Hasher`` learns codes, ``evaluate`` and ``bound`` tell how good they are, ``class_centers`` puts the classes apart.
Heavy libraries are loaded where they are first used, so that importing this package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lbhash.utils.version import __version__

if TYPE_CHECKING:
    from lbhash.centers import class_centers
    from lbhash.evaluation.bound import Bound, bound
    from lbhash.evaluation.report import Report, evaluate
    from lbhash.hasher import Hasher

_HOMES = {
    "Bound": "lbhash.evaluation.bound",
    "Hasher": "lbhash.hasher",
    "Report": "lbhash.evaluation.report",
    "bound": "lbhash.evaluation.bound",
    "class_centers": "lbhash.centers",
    "evaluate": "lbhash.evaluation.report",
}

__all__ = ["Bound", "Hasher", "Report", "__version__", "bound", "class_centers", "evaluate"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'lbhash' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
