"""Names of a package that are imported from their modules on first use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from lbhash.utils.names import unknown_name

_NONE: Mapping[str, str] = {}


def lazy_names(package: str, homes: Mapping[str, str], words: Mapping[str, str] = _NONE) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a package.

    Args:
        package: name of the package.
        homes: the module of each name, below the package.
        words: names from other libraries, with our name for each.
    """

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(unknown_name(name, f"no attribute of {package}", homes, words))
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)  # so that this is called once
        return value

    return __getattr__
