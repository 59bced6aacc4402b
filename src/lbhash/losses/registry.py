"""The host methods by name, and the pull onto the class centers that is added to any of them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any

from lbhash.losses.base import Objective, Task
from lbhash.losses.csq import CSQ
from lbhash.losses.custom import check_custom, import_method
from lbhash.losses.dbdh import DBDH
from lbhash.losses.dch import DCH
from lbhash.losses.dfh import DFH
from lbhash.losses.dhn import DHN
from lbhash.losses.dpn import DPN
from lbhash.losses.dpsh import DPSH
from lbhash.losses.dsdh import DSDH
from lbhash.losses.dsh import DSH
from lbhash.losses.dtsh import DTSH
from lbhash.losses.greedyhash import GreedyHash
from lbhash.losses.hashnet import HashNet
from lbhash.losses.hyp2 import HyP2
from lbhash.losses.idhn import IDHN
from lbhash.losses.jmlh import JMLH
from lbhash.losses.mds import MDS
from lbhash.losses.mihash import MIHash
from lbhash.losses.normsoftmax import NormSoftmax
from lbhash.losses.orthohash import OrthoHash
from lbhash.losses.pulls import BitsPull, SurrogatePull
from lbhash.losses.qsmi import QSMI
from lbhash.losses.talr import TALR
from lbhash.utils.formatting import shown
from lbhash.utils.validation import check_choice, check_type, did_you_mean

_OF_THE_PAPER = (HashNet, DBDH, DSDH, DCH, GreedyHash, CSQ)
_OF_PAIRS = (DSH, DHN, DPSH, DTSH, MIHash, TALR, IDHN, QSMI)
_OF_CLASSES = (DPN, OrthoHash, NormSoftmax, MDS, JMLH, DFH, HyP2)
METHODS: dict[str, type[Objective]] = {
    kind.__name__.lower(): kind for kind in (*_OF_THE_PAPER, *_OF_PAIRS, *_OF_CLASSES)
}
"""The host methods by the name that ``method`` takes: those of the guidance's paper first, and in its order."""

PULLS: dict[str, type[SurrogatePull | BitsPull] | None] = {"none": None, "surrogate": SurrogatePull, "bits": BitsPull}
"""What is added to a host method, by the name that ``pull`` takes."""


def build_objective(
    method: str | type[Objective],
    task: Task,
    pull: str = "surrogate",
    guidance: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
) -> Objective:
    """Build the objective of a host method with one of ``PULLS``.

    ``method`` is a name of ``METHODS``, which may end in ``_d`` if the pull is "surrogate"; or a custom ``Objective``,
    as its class or ``module:Class``. ``guidance`` are options of the pull, and ``options`` those of the method. An
    unknown method is a ``ValueError``, and a name that the method or the pull does not take is a ``TypeError``.
    """
    host = check_method(method, pull, guidance=guidance, options=options)(task, **(options or {}))
    if "_modules" not in vars(host):
        raise TypeError(f"method {method_name(method)} has a constructor that does not call super().__init__()")
    kind = PULLS[pull]
    return host if kind is None else kind(host, task, **(guidance or {}))


def check_method(
    method: Any,
    pull: str = "surrogate",
    *,
    guidance: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
) -> type[Any]:
    """Return the class of a method; the errors are those of ``build_objective``."""
    kind = find_method(method)
    if names_surrogate(method) and pull != "surrogate":
        raise ValueError(
            f"method is {method!r}, whose pull is 'surrogate', and pull is {pull!r}; leave one of the two out"
        )
    _check_names(options, "options", kind, 1, f"method {method_name(method)}")
    _check_names(guidance, "guidance", PULLS[pull] or SurrogatePull, 2, f"pull {pull!r}")
    if kind not in METHODS.values():
        check_custom(kind, options or {}, method_name(method))
    return kind


def find_method(method: Any) -> type[Any]:
    """Return the class of a method, as ``build_objective`` takes it; ``ValueError`` if there is none."""
    if isinstance(method, str) and ":" in method:
        return import_method(method)
    kind: Any = METHODS.get(_host_name(method)) if isinstance(method, str) else method
    if not isinstance(kind, type):
        known = ", ".join(METHODS)
        raise ValueError(
            f"method is {shown(method)}; it must be one of {known}, one of these with _d after it, or a custom "
            "Objective: its class, or module:Class"
        )
    return kind


def uses_centers(method: Any, pull: str) -> bool:
    """Return whether a method with this pull depends on the class centers; a custom one may, unless it says no."""
    # Only the class's own attribute counts: a subclass may read the centers where its base does not.
    return pull != "none" or vars(find_method(method)).get("uses_centers", True)


LONG = 48
"""Bits from which on ``Objective.recommended_long`` holds: the searches were at 32 and at 64."""


PAPER: Mapping[str, Any] = {"batch_size": 64, "lr": 1e-3, "schedule": "step", "dropout": 0.5}
"""The paper's settings of a training, the recipe "paper"."""


def recommended(method: Any, pull: str, bits: int) -> dict[str, Any]:
    """Return the settings of the recipe "tuned" for a method with this pull; it may have none."""
    found: dict[str, Any] = {}
    for name in ("recommended", "recommended_long") if bits >= LONG else ("recommended",):
        given = _by_pull(method, name).get(pull, {})
        found = dict(PAPER) if given == "paper" else {**found, **given}
    return {**PAPER, **settings_at(found, bits)} if found else {}


def _by_pull(method: Any, name: str) -> Mapping[str, Any]:
    """Return an attribute of a method that has settings for each pull; ``ValueError`` if it is not as it must be."""
    found = getattr(find_method(method), name, {})
    whose, settings = f"{name} of method {method_name(method)!r}", (*PAPER, "options", "guidance")
    check_type(found, whose, Mapping, "a dict with settings, or 'paper', for each pull")
    for pull, given in found.items():
        check_choice(pull, f"a pull of {whose}", PULLS)
        check_type(given, f"{whose}[{pull!r}]", (str, Mapping), "a dict of settings, or 'paper'")
        for key in given if given != "paper" else ():
            check_choice(key, f"a setting of {whose}[{pull!r}]", settings)
    return found


def settings_at(found: Mapping[str, Any], bits: int) -> dict[str, Any]:
    """Return settings for one code length: functions of the length, at any depth, are replaced by their values."""

    def value(entry: Any) -> Any:
        return settings_at(entry, bits) if isinstance(entry, Mapping) else entry(bits) if callable(entry) else entry

    return {name: value(entry) for name, entry in found.items()}


def method_name(method: Any) -> str:
    """Return the host's name; that of a custom one is its class's, in small letters."""
    if isinstance(method, str):
        return method.rpartition(":")[2].lower() if ":" in method else _host_name(method)
    return method.__name__.lower()


def stored_method(method: Any) -> str:
    """Return the name to find a method by: its own, or ``module:Class`` of a custom class that can be imported."""
    if isinstance(method, str):
        return _host_name(method)
    module, name = method.__module__, method.__name__
    importable = module != "__main__" and getattr(sys.modules.get(module), name, None) is method
    return f"{module}:{name}" if importable and method not in METHODS.values() else method_name(method)


def names_surrogate(method: Any) -> bool:
    """Return whether a method's name asks for the pull "surrogate", the paper's guidance, as ``csq_d`` does."""
    return isinstance(method, str) and method.lower().endswith("_d") and method.lower()[:-2] in METHODS


def _host_name(method: str) -> str:
    """Return the name of the host: of ``csq_d`` and ``CSQ_D`` it is ``csq``."""
    name = method.lower()[:-2] if names_surrogate(method) else method.lower()
    return name if name in METHODS else str(method)


def _check_names(given: Any, argument: str, kind: type[Any], leading: int, whose: str) -> None:
    """Raise ``TypeError`` unless ``given`` is a dict of arguments that ``kind`` takes behind its ``leading`` ones."""
    if given is None:
        return
    check_type(given, argument, Mapping, "a dict")
    parameters = list(inspect.signature(kind).parameters.values())
    if any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters):
        return
    named = [p.name for p in parameters[leading:] if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    for key in given:
        if key not in named:
            takes = f"it may have {', '.join(named)}" if named else "it takes none"
            raise TypeError(
                f"{argument} has {key!r}, which {whose} does not take; {takes}{did_you_mean(str(key), named)}"
            )
