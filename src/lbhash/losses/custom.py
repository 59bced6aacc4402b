"""Custom methods: find a class by its name, and check it."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from lbhash.losses.base import Objective
from lbhash.utils.formatting import one_line


def import_method(method: str) -> type[Objective]:
    """Import the class ``module:Class`` of an objective, from the current folder if it is not installed."""
    module, _, name = method.partition(":")
    if not all(part.isidentifier() for part in module.split(".")):
        raise ValueError(f"method is {method!r}; a module is written without its folder and .py, as in my_method:Mine")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # behind all others, so that no file of the folder hides a package
    try:
        found = import_module(module)
    except Exception as error:  # whatever a module may raise while it is loaded
        what = f"method is {method!r}, whose module {module!r} could not be imported: {one_line(error)}"
        absent = isinstance(error, ModuleNotFoundError) and error.name in (module, module.partition(".")[0])
        where = "; it must be in the current folder, or installed, and is written without .py" if absent else ""
        raise ValueError(what + where) from error
    kind = getattr(found, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Objective)):
        what = "has no such class" if kind is None else f"has {name} as something else"
        where = getattr(found, "__file__", None) or module
        raise ValueError(
            f"method is {method!r}, and the module {what} ({where}); it must be a subclass of lbhash.losses.Objective"
        )
    return kind


def check_custom(kind: type[Any], options: Mapping[str, Any], name: str) -> None:
    """Raise ``TypeError`` unless a custom method can be made of a task and these options, and has a loss."""
    if not issubclass(kind, Objective):
        raise TypeError(f"method is {kind.__name__}, which is not a subclass of lbhash.losses.Objective")
    form = "forward(self, logits, labels, index)"
    if kind.forward is Objective.forward:
        raise TypeError(f"method {name} has no {form}, which returns its loss")
    _check_call(kind.forward, (None,) * 4, {}, f"method {name} has a forward that cannot be called", form)
    _check_call(kind, (None,), options, f"method {name} cannot be made", "__init__(self, task, *, option=default)")
    parameters = inspect.signature(kind).parameters
    for option, value in options.items():
        default = parameters[option].default if option in parameters else None
        for types, what in ((bool, "true or false"), ((int, float), "a number"), (str, "a text")):
            if isinstance(default, types):
                if not isinstance(value, types) or isinstance(value, bool) != isinstance(default, bool):
                    raise TypeError(f"options has {option!r} with {value!r}; method {name} takes {what} there")
                break


def _check_call(
    called: Callable[..., Any], leading: tuple[Any, ...], named: Mapping[str, Any], what: str, form: str
) -> None:
    try:
        inspect.signature(called).bind(*leading, **named)
    except TypeError as error:
        raise TypeError(f"{what}: {error}; it must be {form}") from None
