"""The service: a FastAPI application over a model and an index, and the page that shows them.

Its child processes import this package too, so that the web framework is loaded only where it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lbhash.service.app import create_app
    from lbhash.service.settings import Settings

__all__ = ["Settings", "create_app"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'lbhash.service' has no attribute {name!r}")
    return getattr(import_module("lbhash.service.app"), name)
