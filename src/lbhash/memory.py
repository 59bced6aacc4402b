"""The memory that a process needs."""

from __future__ import annotations

import sys


def peak_memory() -> int | None:
    """The most memory that this process has had, in bytes; ``None`` where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
