"""Search spaces: the settings that are searched, each with its range as an Optuna distribution."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import torch
from sklearn.base import clone

from lbhash.hasher import Hasher
from lbhash.losses import Objective, Task
from lbhash.losses.registry import PULLS, build_objective, find_method, method_name
from lbhash.models.hash_model import HashModel
from lbhash.training.defaults import completed, pull_of
from lbhash.training.settings import param_name, side_by_side
from lbhash.utils.paths import existing_file
from lbhash.utils.system import check_packages
from lbhash.utils.validation import check_float

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

SETTINGS = ("lr", "dropout", "hidden", "centers", "batch_size")
"""Arguments of ``Hasher`` that may be searched, besides ``options.NAME`` of the method and ``guidance.NAME``."""

Space = Mapping[str, Any]
"""A search space: Optuna's distributions by name, one of ``SETTINGS``, ``options.NAME`` or ``guidance.NAME``."""

_ENTRY = '{"low": …, "high": …, "log": true or false} or {"choices": [ … ]}'


def import_optuna() -> Any:
    """Import and return Optuna, or raise ``ValueError`` with a line that says how to install it."""
    check_packages("tune", "tune", "optuna")
    import optuna

    return optuna


def default_space(method: Any, pull: str, bits: int) -> dict[str, BaseDistribution]:
    """Return the default space, with the ``search_space`` of the method (a name or a custom one)."""
    space: dict[str, Any] = {
        "lr": {"low": 1e-4, "high": 1e-2, "log": True},
        "dropout": {"low": 0.0, "high": 0.8},
        "hidden": {"choices": [0, 256, 512, 1024]},
    }
    if pull != "none":
        space["guidance.weight"] = {"low": 0.001, "high": 3.0, "log": True}
    for name, entry in getattr(find_method(method), "search_space", {}).items():
        space[f"options.{name}"] = entry(bits) if callable(entry) else entry
    return _from_entries(space, f"search_space of method {method_name(method)!r}")


def read_space(file: str | Path) -> dict[str, BaseDistribution]:
    """Read a space from a JSON file, an object of names, each with its range or its choices.

    For instance ``{"lr": {"low": 1e-4, "high": 1e-2, "log": true}, "hidden": {"choices": [0, 512]}}``. It replaces the
    default space; a setting that it does not name is not searched. Raises ``TypeError`` or ``ValueError`` for anything
    else.
    """
    path = existing_file(file, "space")
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"space is {str(file)!r}, which is not JSON: {error}") from None
    if not isinstance(entries, dict) or not entries:
        raise ValueError(f"space is {str(file)!r}; it must be an object of names, each with {_ENTRY}")
    return _from_entries(entries, "space")


def _from_entries(entries: Mapping[str, Any], whose: str) -> dict[str, BaseDistribution]:
    space = {}
    for name, entry in entries.items():
        try:
            space[name] = from_entry(entry)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{whose} has {name!r} with {json.dumps(entry, default=repr)}; {error}") from None
    return space


def from_entry(entry: Any) -> BaseDistribution:
    """Return the distribution of an entry of a space file: of integers, if both limits are integers."""
    distributions = import_optuna().distributions
    keys = set(entry) if isinstance(entry, dict) else set()
    if keys == {"choices"} and isinstance(entry["choices"], list):
        for value in entry["choices"]:
            if not isinstance(value, (bool, int, float, str, NoneType)):
                raise TypeError(f"choices has {value!r}; its values must be numbers, strings, true, false or null")
        return distributions.CategoricalDistribution(entry["choices"])
    if not {"low", "high"} <= keys <= {"low", "high", "log"} or not isinstance(entry.get("log", False), bool):
        raise ValueError(f"it must be {_ENTRY}")
    for name in ("low", "high"):
        check_float(entry[name], name)
    if isinstance(entry["low"], int) and isinstance(entry["high"], int):
        return distributions.IntDistribution(**entry)
    return distributions.FloatDistribution(**entry)


def with_params(hasher: Hasher, params: Mapping[str, Any]) -> Hasher:
    """Return an unfitted copy of the hasher with these settings, named as in a space."""
    settings: dict[str, Any] = {}
    for name, value in params.items():
        group, _, own = name.rpartition(".")
        if group:
            settings[group] = {**settings.get(group, getattr(hasher, group) or {}), own: value}
        else:
            settings[param_name(own)] = value
    return clone(hasher).set_params(**settings)


def starting_point(hasher: Hasher, space: Space) -> dict[str, Any]:
    """Return the hasher's own settings that lie in the space: the first trial of a search."""
    values = {name: _own_value(hasher, name) for name in space}
    return {name: value for name, value in values.items() if _contains(space[name], value)}


def checked_space(space: Space, hasher: Hasher, classes: int) -> dict[str, BaseDistribution]:
    """Return the space; whole limits become fractions if the setting is not a count.

    Raises ``TypeError`` or ``ValueError`` unless a hasher can be made at both ends of each range, and with each choice.
    """
    distributions, found = import_optuna().distributions, dict(space)
    if not space:
        raise ValueError("space is empty; it must name at least one setting")
    _build(hasher, classes)
    pull = pull_of(side_by_side(hasher).checked())
    for name, values in space.items():
        group, _, own = name.rpartition(".")
        if group not in ("", "options", "guidance") or (not group and own not in SETTINGS):
            known = ", ".join((*SETTINGS, "options.NAME", "guidance.NAME"))
            raise ValueError(f"space has {name!r}; it may have {known}")
        if group == "guidance" and pull == "none":
            raise ValueError(f"space has {name!r}, and pull is 'none'; leave it out, or add a pull")
        if not isinstance(values, distributions.BaseDistribution):
            raise TypeError(f"space has {name!r} with {values!r}; it must be one of Optuna's distributions")
        for value in values.choices if hasattr(values, "choices") else (values.low, values.high):
            try:
                _build(with_params(hasher, {name: value}), classes)
            except (TypeError, ValueError) as error:
                raise type(error)(f"space has {name!r} with {value!r}, which cannot be: {error}") from None
        if isinstance(values, distributions.IntDistribution) and isinstance(_default(hasher, name), float):
            found[name] = distributions.FloatDistribution(values.low, values.high, values.log)
    return found


def _build(hasher: Hasher, classes: int) -> Objective:
    """Build what a hasher builds before training, as far as that is quick, and return the objective."""
    given = completed(side_by_side(hasher).checked())
    assert given.dropout is not None
    assert given.pull is not None
    with torch.random.fork_rng(devices=[]):
        HashModel(1, given.bits, given.hidden, given.dropout)
        task = Task(given.bits, classes, torch.arange(classes), torch.ones(classes, given.bits), given.epochs)
        return build_objective(given.method, task, given.pull, given.guidance, given.options)


def _own_value(hasher: Hasher, name: str) -> Any:
    """Return the value of a setting that is not searched."""
    group, _, own = name.rpartition(".")
    given = completed(side_by_side(hasher).checked())
    value = (getattr(given, group) or {}).get(own) if group else getattr(given, own)
    return _default(hasher, name) if value is None else value


def _default(hasher: Hasher, name: str) -> Any:
    """Return a setting's default; None if the objective derives it from others and has no attribute of its name."""
    group, _, own = name.rpartition(".")
    given = completed(side_by_side(hasher).checked())
    if not group:  # the recipe has it
        return getattr(given, own)
    assert given.pull is not None
    kind: Any = find_method(given.method) if group == "options" else PULLS[given.pull]
    parameter = inspect.signature(kind).parameters.get(own)
    if parameter is not None and parameter.default not in (None, parameter.empty):
        return parameter.default
    objective = _build(hasher, 2)
    return getattr(getattr(objective, "host", objective) if group == "options" else objective, own, None)


def _contains(distribution: Any, value: Any) -> bool:
    if hasattr(distribution, "choices"):
        return value in distribution.choices
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    integers = isinstance(distribution.low, int)
    return distribution.low <= float(value) <= distribution.high and (not integers or value == round(value))
