"""Search spaces: which settings are searched, between which limits, on which scale."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lbhash.utils.files import existing_file

if TYPE_CHECKING:
    from lbhash.hasher import Hasher

SETTINGS = ("lr", "dropout", "hidden", "centers", "batch_size")
"""Arguments of ``Hasher`` that may be searched, besides ``options.NAME`` of the method and ``guidance.NAME``."""

_ENTRY = '{"low": …, "high": …, "log": true or false} or {"choices": [ … ]}'


@dataclass(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``; ``log`` where factors count and not differences.

    They are whole ones where both limits are, but of a setting whose default has a fraction (``with_fractions``).
    """

    low: float
    high: float
    log: bool = False
    start: float | None = None
    """Where a search begins, for a setting whose default follows from others."""

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
                raise TypeError(f"{name} of a range is {value!r}; it must be a finite number")
        if not isinstance(self.log, bool):
            raise TypeError(f"log of a range is {self.log!r}; it must be true or false")
        if self.low >= self.high:
            raise ValueError(f"low of a range is {self.low} and high is {self.high}; low must be below high")
        if self.log and self.low <= 0:
            raise ValueError(f"low of a range is {self.low}; on a logarithmic scale it must be above 0")

    @property
    def whole(self) -> bool:
        """Whether the numbers are whole."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest."""
        return self.low, self.high

    def __contains__(self, value: Any) -> bool:
        if not isinstance(value, Real) or isinstance(value, bool) or (self.whole and value != round(value)):
            return False
        return self.low <= float(value) <= self.high

    def sample(self, rng: np.random.Generator) -> float:
        """One of the numbers, all being as likely, on a logarithmic scale all factors."""
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        value = float(rng.uniform(low, high))
        value = min(max(math.exp(value) if self.log else value, self.low), self.high)
        return round(value) if self.whole else value

    def suggest(self, trial: Any, name: str) -> float:
        """What an Optuna trial takes."""
        if self.whole:
            return trial.suggest_int(name, self.low, self.high, log=self.log)
        return trial.suggest_float(name, self.low, self.high, log=self.log)

    def as_dict(self) -> dict[str, Any]:
        """As a file holds it."""
        return {"low": self.low, "high": self.high, "log": self.log}


@dataclass(frozen=True)
class Choice:
    """One of several values: numbers, strings, booleans or None."""

    choices: tuple[Any, ...]

    start = None

    def __post_init__(self) -> None:
        if not self.choices:
            raise ValueError("choices is empty; it must have a value at least")
        for value in self.choices:
            if not isinstance(value, (bool, int, float, str, type(None))):
                raise TypeError(f"choices has {value!r}; its values must be numbers, strings, true, false or null")

    @property
    def ends(self) -> tuple[Any, ...]:
        """All of them."""
        return self.choices

    def __contains__(self, value: Any) -> bool:
        return value in self.choices

    def sample(self, rng: np.random.Generator) -> Any:
        """One of them, all being as likely."""
        return self.choices[int(rng.integers(len(self.choices)))]

    def suggest(self, trial: Any, name: str) -> Any:
        """What an Optuna trial takes."""
        return trial.suggest_categorical(name, list(self.choices))

    def as_dict(self) -> dict[str, Any]:
        """As a file holds it."""
        return {"choices": list(self.choices)}


Space = Mapping[str, Range | Choice]
"""What is searched, by name: one of ``SETTINGS``, ``options.NAME`` or ``guidance.NAME``."""


def default_space(method: Any, guided: bool, bits: int) -> dict[str, Range | Choice]:
    """What is searched where no space is given.

    Args:
        method: a name of ``lbhash.losses.METHODS``; of a method of one's own no option is searched.
        guided: whether the guidance is added, of which the weight is searched.
        bits: h, which HashNet's α is relative to.
    """
    space: dict[str, Range | Choice] = {
        "lr": Range(1e-4, 1e-2, log=True),
        "dropout": Range(0.0, 0.8),
        "hidden": Choice((0, 256, 512, 1024)),
    }
    if guided:
        space["guidance.weight"] = Range(0.03, 3.0, log=True)
    of_methods: dict[str, dict[str, Range | Choice]] = {
        "hashnet": {
            "alpha": Range(1 / bits, 100 / bits, log=True, start=10 / bits),
            "continuation": Range(5.0, 100.0, log=True),
        },
        "dbdh": {"alpha": Range(1e-3, 1.0, log=True)},
        "dsdh": {
            "mu": Range(1e-2, 10.0, log=True),
            "nu": Range(1e-2, 10.0, log=True),
            "eta": Range(1e-2, 10.0, log=True),
        },
        "dch": {"gamma": Range(2.0, 50.0, log=True), "lam": Range(1e-3, 1.0, log=True)},
        "greedyhash": {"alpha": Range(1e-3, 1.0, log=True)},
        "csq": {"lam": Range(1e-5, 1e-1, log=True)},
    }
    options = of_methods.get(method, {}) if isinstance(method, str) else {}
    return space | {f"options.{name}": values for name, values in options.items()}


def read_space(file: str | Path) -> dict[str, Range | Choice]:
    """The space of a JSON file: an object of names, each with its limits or its choices.

    For instance ``{"lr": {"low": 1e-4, "high": 1e-2, "log": true}, "hidden": {"choices": [0, 512]}}``. It takes the
    place of the default space; a setting that it does not name keeps its value.

    Raises:
        ValueError: there is no such file, or it is not such an object.
        TypeError: a limit or a choice is of the wrong type.
    """
    path = existing_file(file, "space")
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"space is {str(file)!r}, which is not JSON: {error}") from None
    if not isinstance(held, dict) or not held:
        raise ValueError(f"space is {str(file)!r}; it must be an object of names, each with {_ENTRY}")
    space: dict[str, Range | Choice] = {}
    for name, entry in held.items():
        keys = set(entry) if isinstance(entry, dict) else set()
        try:
            if keys == {"choices"} and isinstance(entry["choices"], list):
                space[name] = Choice(tuple(entry["choices"]))
            elif {"low", "high"} <= keys <= {"low", "high", "log"}:
                space[name] = Range(**entry)
            else:
                raise ValueError(f"it must be {_ENTRY}")
        except (TypeError, ValueError) as error:
            raise type(error)(f"space has {name!r} with {json.dumps(entry)}; {error}") from None
    return space


def with_params(hasher: Hasher, params: Mapping[str, Any]) -> Hasher:
    """An unfitted copy of the hasher with these settings, named as in a space."""
    from sklearn.base import clone

    groups: dict[str, dict[str, Any]] = {"": {}, "options": {}, "guidance": {}}
    for name, value in params.items():
        group, _, own = name.rpartition(".")
        groups[group][own] = value
    settings = groups.pop("")
    for group, values in groups.items():
        if values:
            settings[group] = {**(getattr(hasher, group) or {}), **values}
    return clone(hasher).set_params(**settings)


def starting_point(hasher: Hasher, space: Space) -> dict[str, Any]:
    """The hasher's own settings, of those that the space holds: what a search tries first."""
    start = {}
    for name, values in space.items():
        group, _, own = name.rpartition(".")
        value = (getattr(hasher, group) or {}).get(own) if group else getattr(hasher, own)
        value = _default(hasher, name) if value is None else value
        value = values.start if value is None else value
        if value in values:
            start[name] = value
    return start


def with_fractions(space: Space, hasher: Hasher) -> dict[str, Range | Choice]:
    """The space with fractions in the ranges of all settings that are no counts, whole as their limits may be."""
    return {
        name: replace(values, low=float(values.low), high=float(values.high))
        if isinstance(values, Range) and isinstance(_default(hasher, name), float)
        else values
        for name, values in space.items()
    }


def check_space(space: Space, hasher: Hasher, classes: int) -> None:
    """Raise unless a hasher can be made at both ends of every range and with every choice.

    Raises:
        TypeError, ValueError: a name is not known, or a value is out of its limits; the line says which.
    """
    if not space:
        raise ValueError("space is empty; it must name a setting at least")
    _check_made(hasher, classes)
    for name, values in space.items():
        group, _, own = name.rpartition(".")
        if group not in ("", "options", "guidance") or (not group and own not in SETTINGS):
            known = ", ".join((*SETTINGS, "options.NAME", "guidance.NAME"))
            raise ValueError(f"space has {name!r}; it may have {known}")
        if group == "guidance" and not hasher.guided:
            raise ValueError(f"space has {name!r}, and the method is not guided; leave it out, or add the guidance")
        if not isinstance(values, (Range, Choice)):
            raise TypeError(f"space has {name!r} with {values!r}; it must be a Range or a Choice")
        for value in values.ends:
            try:
                _check_made(with_params(hasher, {name: value}), classes)
            except (TypeError, ValueError) as error:
                raise type(error)(f"space has {name!r} with {value!r}, which cannot be: {error}") from None


def _check_made(hasher: Hasher, classes: int) -> None:
    """Make, of what a hasher makes before it trains, all that is quick."""
    import torch

    from lbhash.centers.targets import check_center_kind
    from lbhash.losses import Task, build_objective
    from lbhash.models.hash_model import HashModel
    from lbhash.training.schedule import Schedule

    Schedule(hasher.epochs, hasher.batch_size, hasher.lr)
    check_center_kind(hasher.centers)
    with torch.random.fork_rng(devices=[]):
        HashModel(1, hasher.bits, hasher.hidden, hasher.dropout)
        task = Task(hasher.bits, classes, torch.arange(classes), torch.ones(classes, hasher.bits), hasher.epochs)
        build_objective(hasher.method, task, guided=hasher.guided, guidance=hasher.guidance, options=hasher.options)


def _default(hasher: Hasher, name: str) -> Any:
    """What a setting is where it is not given; ``None`` where it has to be, or follows from others."""
    import inspect

    from lbhash.losses import METHODS, Guided

    group, _, own = name.rpartition(".")
    host: Any = METHODS[hasher.method] if isinstance(hasher.method, str) else hasher.method
    kind = {"": type(hasher), "guidance": Guided, "options": host}[group]
    parameter = inspect.signature(kind).parameters.get(own)
    return None if parameter is None or parameter.default is parameter.empty else parameter.default
