"""Starts the processes that train together, unless torchrun did, and ends them together."""

from __future__ import annotations

import atexit
import errno
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

import torch
import torch.distributed as dist

from lbhash.training.distributed import Place

_TIMEOUT = timedelta(minutes=30)
"""The others wait so long while the first process evaluates an epoch."""
_GRACE = 5
"""Seconds that a process has to end by itself, in which it may say why."""
_STARTED_BY = "LBHASH_STARTED_BY"  # the number of the process that has started this one

_others: list[subprocess.Popen[bytes]] = []
"""The processes that this one has started."""


@contextmanager
def processes(device: torch.device, devices: int, nodes: int) -> Iterator[Place]:
    """Be one of the processes that train, until the block ends; the first one of a machine starts the others.

    They run the same command, which comes to the same place. If one of them fails, all end. If there are several
    machines, torchrun or the environment says which one this is.

    Raises:
        ValueError: other processes can't be started from here, or as many others train together already.
    """
    world = devices * nodes
    if world == 1:
        yield Place(device)
        return
    if "RANK" not in os.environ:
        _start_others(devices, nodes)
    if (running := os.environ["WORLD_SIZE"]) != str(world):
        raise ValueError(f"devices is {devices} and nodes {nodes}, and {running} processes train together already")
    gpu = device if device.type == "cuda" else None
    if gpu is not None:
        torch.cuda.set_device(gpu)
    with _ending_together():
        if not dist.is_initialized():
            atexit.register(_leave)
            dist.init_process_group("gloo" if gpu is None else "nccl", timeout=_TIMEOUT, device_id=gpu)
        yield Place(device, dist.get_rank(), world)


def _start_others(devices: int, nodes: int) -> None:
    """Start this command once more for each further device, and tell all processes their numbers, as torchrun does."""
    if hasattr(sys, "ps1"):
        raise ValueError(
            f"devices is {devices}, and other processes cannot run what was typed here; write a script, or take 1"
        )
    if nodes > 1:
        missing = [name for name in ("MASTER_ADDR", "MASTER_PORT", "NODE_RANK") if name not in os.environ]
        if missing:
            raise ValueError(
                f"nodes is {nodes}, and {missing[0]} is not in the environment; let torchrun start the processes, or "
                "set MASTER_ADDR, MASTER_PORT and NODE_RANK on each machine"
            )
    else:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    first = int(os.environ.get("NODE_RANK", 0)) * devices
    os.environ |= {"WORLD_SIZE": str(devices * nodes), "LOCAL_WORLD_SIZE": str(devices)}
    os.environ |= {"RANK": str(first), "LOCAL_RANK": "0"}
    for local in range(1, devices):
        own = {"RANK": str(first + local), "LOCAL_RANK": str(local), _STARTED_BY: str(os.getpid())}
        # In a session of its own, so that Ctrl-C reaches the first process alone, which then ends the others.
        command = [sys.executable, *sys.orig_argv[1:]]
        _others.append(subprocess.Popen(command, env={**os.environ, **own}, start_new_session=True))


@contextmanager
def _ending_together() -> Iterator[None]:
    """End the processes that this one has started if the block fails, and this one if one of them does."""
    over = threading.Event()
    if starter := os.environ.get(_STARTED_BY):
        threading.Thread(target=_end_after, args=(int(starter), over), daemon=True).start()
    elif _others:
        threading.Thread(target=_end_with_others, args=(over,), daemon=True).start()
    try:
        yield
    except BaseException as error:
        if starter:
            time.sleep(_GRACE)  # the first process, if it fails too, says why and ends this one
        lost = _lost(seconds=1 if isinstance(error, RuntimeError) else 0)  # Gloo knows it before the system
        over.set()
        _end_others()
        if lost and isinstance(error, Exception):
            raise ChildProcessError(errno.ECHILD, lost) from error
        raise
    finally:
        over.set()


def _end_after(starter: int, over: threading.Event) -> None:
    """End this process when the one that has started it is gone."""
    while not over.wait(1):
        if os.getppid() != starter:
            os._exit(1)


def _end_with_others(over: threading.Event) -> None:
    """End this process when another is gone. Over Gloo it ends by itself, over NCCL it may wait for ever."""
    while not over.wait(1):
        lost = _lost()
        if lost and not over.wait(_GRACE):
            sys.stderr.write(f"lbhash: error: {lost}\n")
            _end_others()
            os._exit(1)


def _lost(seconds: float = 0) -> str:
    """Return the line that says which of the others is gone, for which it may wait; nothing if all are there."""
    end = time.monotonic() + seconds
    while True:
        for number, other in enumerate(_others, 2):
            if (status := other.poll()) is not None:
                return f"process {number} of {len(_others) + 1} ended with exit status {status}"
        if not _others or time.monotonic() >= end:
            return ""
        time.sleep(0.05)


def _end_others() -> None:
    for other in _others:
        other.kill()
        other.wait()


def _leave() -> None:
    """Leave the group before the interpreter ends: Gloo's threads may hold tensors then (PyTorch's PR 179291)."""
    if dist.is_initialized():
        dist.destroy_process_group()
    for other in _others:
        with suppress(subprocess.TimeoutExpired):
            other.wait(60)  # they have no more to do than this one had
    _end_others()
