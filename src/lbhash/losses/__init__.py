"""Methods: a loss each, and the pull onto the class centers that is added to any of them (``registry``)."""

from __future__ import annotations

from lbhash.losses.base import Objective, Task

__all__ = ["Objective", "Task"]
