"""The host methods of the paper, by name, and the guidance that is added to any of them."""

from __future__ import annotations

from typing import Any

from lbhash.objectives.base import Objective, Task
from lbhash.objectives.csq import CSQ
from lbhash.objectives.dbdh import DBDH
from lbhash.objectives.dch import DCH
from lbhash.objectives.dsdh import DSDH
from lbhash.objectives.greedyhash import GreedyHash
from lbhash.objectives.guided import Guided
from lbhash.objectives.hashnet import HashNet

METHODS: dict[str, type[Objective]] = {
    "hashnet": HashNet,
    "dbdh": DBDH,
    "dsdh": DSDH,
    "dch": DCH,
    "greedyhash": GreedyHash,
    "csq": CSQ,
}
"""The host methods by the name that ``method`` takes, in the paper's order."""


def build_objective(
    method: str | type[Objective],
    task: Task,
    *,
    guided: bool = True,
    guidance: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
) -> Objective:
    """A host method, plain or guided.

    Args:
        method: a name of ``METHODS``, or an ``Objective`` of one's own.
        task: what is to be learnt.
        guided: whether to add the guidance.
        guidance: options of ``Guided``.
        options: options of the method.
    """
    kind = METHODS.get(method) if isinstance(method, str) else method
    if kind is None:
        raise ValueError(f"method is {method!r}; it must be one of {', '.join(METHODS)}")
    host = kind(task, **(options or {}))
    return Guided(host, task, **(guidance or {})) if guided else host


__all__ = ["CSQ", "DBDH", "DCH", "DSDH", "METHODS", "GreedyHash", "Guided", "HashNet", "Objective", "Task"]
__all__ += ["build_objective"]
