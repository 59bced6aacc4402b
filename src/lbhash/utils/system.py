"""What this process may use, and what it has used."""

from __future__ import annotations

import os
import sys


def usable_cores() -> int:
    """The cores that this process may run on; all of the machine's where the system does not tell."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def peak_memory() -> int | None:
    """The most memory that this process has had, in bytes; ``None`` where the system does not tell."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
