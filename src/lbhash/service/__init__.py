"""The service: a FastAPI application over a model and an index, and the page that shows them.

Child processes import this package too, so the web framework is loaded lazily.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbhash.utils.lazy import lazy_names

if TYPE_CHECKING:
    from lbhash.service.app import create_app
    from lbhash.service.settings import Settings

__all__ = ["Settings", "create_app"]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, {"Settings": "settings", "create_app": "app"})
