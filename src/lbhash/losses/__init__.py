"""The host methods of the paper, by name, and the guidance that is added to any of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from lbhash.losses.base import Objective, Task
from lbhash.losses.csq import CSQ
from lbhash.losses.dbdh import DBDH
from lbhash.losses.dch import DCH
from lbhash.losses.dsdh import DSDH
from lbhash.losses.greedyhash import GreedyHash
from lbhash.losses.guided import Guided
from lbhash.losses.hashnet import HashNet

METHODS: dict[str, type[Objective]] = {
    kind.__name__.lower(): kind for kind in (HashNet, DBDH, DSDH, DCH, GreedyHash, CSQ)
}
"""The host methods by the name that ``method`` takes, in the paper's order."""


def build_objective(
    method: str | Callable[..., Objective],
    task: Task,
    guided: bool = True,
    guidance: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
) -> Objective:
    """Build the objective of a host method, plain or guided.

    ``method`` is a name of ``METHODS``, or a custom ``Objective`` (its class, or a function that makes one of a task).
    ``guidance`` are options of ``Guided``, and ``options`` those of the method. An unknown method is a ``ValueError``,
    and a name that the method or the guidance does not take is a ``TypeError``.
    """
    host = check_method(method, guidance=guidance, options=options)(task, **(options or {}))
    if not isinstance(host, Objective):
        raise TypeError(f"method is {method!r}, which made a {type(host).__name__}; it must make an Objective")
    return Guided(host, task, **(guidance or {})) if guided else host


def check_method(
    method: Any, *, guidance: dict[str, Any] | None = None, options: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """Return the class or function that makes a method of a task; the errors are those of ``build_objective``."""
    kind: Any = METHODS.get(method) if isinstance(method, str) else method
    if not callable(kind):
        raise ValueError(f"method is {method!r}; it must be one of {', '.join(METHODS)}, or a custom Objective")
    _check_names(options, "options", kind, 1, f"method {method_name(method)}")
    _check_names(guidance, "guidance", Guided, 2, "the guidance")
    return kind


def uses_centers(method: Any, guided: bool) -> bool:
    """Return whether a method, plain or guided, depends on the class centers; a custom one may, unless it says no."""
    kind = METHODS.get(method) if isinstance(method, str) else method
    # Only the class's own attribute counts: a subclass may read the centers where its base does not.
    return guided or getattr(kind, "__dict__", {}).get("uses_centers", True)


def recommended(method: Any, guided: bool, bits: int) -> dict[str, Any]:
    """Return what the recipe "tuned" sets for codes of a method, plain or guided; a custom one may have none."""
    kind = METHODS.get(method) if isinstance(method, str) else method
    found = getattr(kind, "recommended", {}).get("guided" if guided else "host", {})

    def value(entry: Any) -> Any:
        if isinstance(entry, Mapping):
            return {name: value(own) for name, own in entry.items()}
        return entry(bits) if callable(entry) else entry

    return {name: value(entry) for name, entry in found.items()}


def method_name(method: Any) -> str:
    """Return the method's name; that of a custom one is its class's or function's, in small letters."""
    if isinstance(method, str):
        return str(method)
    function = getattr(method, "func", method)  # the function of a functools.partial
    return getattr(function, "__name__", type(function).__name__).lower()


def _check_names(given: Any, argument: str, kind: Callable[..., Any], leading: int, whose: str) -> None:
    """Raise ``TypeError`` unless ``given`` is a dict of arguments that ``kind`` takes behind its ``leading`` ones."""
    if given is None:
        return
    if not isinstance(given, Mapping):
        raise TypeError(f"{argument} is {given!r}; it must be a dict")
    try:
        parameters = list(inspect.signature(kind).parameters.values())
    except ValueError:  # a class written in C has no signature
        return
    if any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters):
        return
    named = [p.name for p in parameters[leading:] if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for key in given:
        if key not in named:
            takes = f"it may have {', '.join(named)}" if named else "it takes none"
            raise TypeError(f"{argument} has {key!r}, which {whose} does not take; {takes}")


__all__ = ["CSQ", "DBDH", "DCH", "DSDH", "METHODS", "GreedyHash", "Guided", "HashNet", "Objective", "Task"]
__all__ += ["build_objective", "check_method", "method_name", "recommended", "uses_centers"]
