"""The resources of this process: cores, memory, optional packages."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

TRAINING = ("torch", "sklearn", "scipy", "matplotlib", "seaborn")
"""Packages of the extra ``train``; encoding, searching and serving do not need them."""


def usable_cores() -> int:
    """Return the number of cores that this process may use; if the system does not tell, all of the machine's."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def peak_memory() -> int | None:
    """Return the peak memory of this process in bytes; None if the system does not tell."""
    with suppress(OSError):  # Linux, where getrusage's peak includes that of the parent process
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def has_gpu() -> bool:
    """Return whether the system has an NVIDIA driver, without importing PyTorch; Windows does not tell."""
    return Path("/proc/driver/nvidia/version").exists() or Path("/dev/nvidiactl").exists()


def is_installed(package: str) -> bool:
    """Return whether a package is there, without importing it."""
    from importlib.util import find_spec

    return find_spec(package) is not None


def check_packages(user: str, extra: str, *packages: str) -> None:
    """Raise ``ValueError`` with the command that installs an extra of lbhash if one of its packages is missing."""
    for package in packages:
        if not is_installed(package):
            raise ValueError(f"{user} needs the package {package}: pip install 'lbhash[{extra}]'")


def package_folder(package: str, user: str) -> Path:
    """Return the folder of a package of the extra ``train``, without importing it, which takes a second."""
    from importlib.util import find_spec

    check_packages(user, "train", package)
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
