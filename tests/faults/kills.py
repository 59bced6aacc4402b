"""``kill -9`` of every command that changes files: the old state or the new is there, or the work goes on."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tests.faults.attack import Run, attack
from tests.faults.material import BITS, IDS, MONITORED, TRAINING, Material, look_at_codes, look_at_index, look_at_model
from tests.faults.program import Program, Started

CALLS = (
    "openat,write,pwrite64,writev,fsync,fdatasync,ftruncate,fallocate,chmod,fchmod,fchmodat,link,linkat,symlink,"
    "rename,renameat,renameat2,unlink,unlinkat,mkdir,rmdir"
)
"""The system calls before which a kill can make a difference to files."""
STRACE = shutil.which("strace")
ENOUGH = 60


@dataclass(frozen=True)
class Victim:
    """A command to kill.

    Attributes:
        program: what runs it.
        work: where folders may be made.
        before: the folder as it stands before, if it is there at all.
        arguments: of the command, given the folder.
        look: what the folder holds, or None if that is nothing yet; an error if it is damaged.
        partly: whether what stands there after a kill may be part of the work, with which the same command goes on.
        again: the arguments that go on; if None, the same.
    """

    program: Program
    work: Path
    before: Path | None
    arguments: Callable[[Path], tuple]
    look: Callable[[Path], Any]
    partly: bool = False
    again: Callable[[Path], tuple] | None = None

    def folder(self) -> Path:
        """Return a fresh copy of the folder as it stands before."""
        folder = Path(tempfile.mkdtemp(dir=self.work)) / "there"
        if self.before is not None:
            shutil.copytree(self.before, folder)
        return folder


def kill_all(
    run: Run,
    material: Material,
    before: Path | None,
    arguments: Callable[[Path], tuple],
    look_at: Callable[[Path], Any],
    **more: Any,
) -> None:
    """Kill a command (``Victim``) at random moments and, where there is ``strace``, at random system calls."""
    victim = Victim(material.program, run.folder, before, arguments, look_at, **more)
    old = None if victim.partly or victim.before is None else victim.look(victim.before)
    calls, folder = count_calls(victim)
    new = victim.look(folder)
    started = time.monotonic()
    victim.program.must(*victim.arguments(victim.folder()))
    seconds = time.monotonic() - started
    for rng in run.faults():
        folder = victim.folder()
        process = victim.program.begin(*victim.arguments(folder))
        if calls and rng.random() < 0.7:
            where = kill_at_call(process, *rng.choice(calls))
        else:
            where = kill_at_moment(process, rng, seconds)
        if process.wait().status != -9:  # it had come to its end
            continue
        state = "partly" if victim.partly else look(victim, folder)
        if state not in (old, new, "partly"):
            run.count("wrong", f"killed {where}: neither the old state nor the new: {short(state)}")
        elif victim.partly or state == old:
            done = victim.program(*(victim.again or victim.arguments)(folder))
            if done.crash or done.refused:
                run.count("crashed", f"killed {where}: the same command again: {done.crash or done.line}")
                continue
            after = look(victim, folder)
            run.count("survived" if after == new else "wrong", f"killed {where}, then {difference(after, new)}")
        else:
            run.count("survived")
        shutil.rmtree(folder.parent, ignore_errors=True)
    run.note("killed at", "random system calls" if calls else "random moments")


def look(victim: Victim, folder: Path) -> Any:
    """Return what a folder holds, or the error of looking."""
    try:
        return victim.look(folder) if folder.exists() else None
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def difference(found: Any, wanted: Any) -> str:
    """Return in a few words how a state differs from the one that it should be."""
    if not isinstance(found, dict) or found.keys() != wanted.keys():
        return short(found)
    name = next((name for name in wanted if found[name] != wanted[name]), "nothing")
    return f"{name} is {short(found.get(name))} in the place of {short(wanted.get(name))}"


def short(state: Any) -> str:
    """Return a state in a few words."""
    return str(state)[:300]


def count_calls(victim: Victim) -> tuple[list[tuple[str, int]], Path]:
    """Run a command to its end, and return its system calls that change files, each with its number among its name."""
    folder = victim.folder()
    process = victim.program.begin(*victim.arguments(folder))
    log = Path(tempfile.mkdtemp()) / "calls"
    if STRACE is None or (tracer := trace(process, ["-o", str(log)])) is None:
        process.go()
        assert process.wait().status == 0
        return [], folder
    process.go()
    done = process.wait()
    tracer.wait()
    assert done.status == 0, done.err
    numbers: dict[tuple[str, str], int] = {}
    calls = []
    for line in log.read_text(errors="replace").splitlines():
        found = re.match(r"(\d+) +(\w+)\((.*)", line)
        if found is None:
            continue
        thread, name, said = found.groups()
        numbers[thread, name] = numbers.get((thread, name), 0) + 1
        if not (name == "openat" and "O_CREAT" not in said) and not (name == "write" and said.startswith(("1,", "2,"))):
            calls.append((name, numbers[thread, name]))
    shutil.rmtree(log.parent)
    return calls, folder


def kill_at_call(process: Started, name: str, number: int) -> str:
    """Kill a command when it enters a system call."""
    assert trace(process, ["-o", "/dev/null", "-e", f"inject={name}:signal=KILL:when={number}"]) is not None
    process.go()
    return f"at {name} number {number}"


def kill_at_moment(process: Started, rng: random.Random, seconds: float) -> str:
    """Kill a command some time after its start, if it still runs then."""
    moment = rng.uniform(0, seconds)
    process.go()
    if not process.ended(moment):
        process.kill()
    return f"after {moment:.4f} s"


def trace(process: Started, options: list[str]) -> subprocess.Popen | None:
    """Attach ``strace`` to a command that has not begun; None where that is not allowed."""
    tracer = subprocess.Popen(
        [STRACE, "-f", "-qq", "-e", f"trace={CALLS}", *options, "-p", str(process.pid)], stderr=subprocess.DEVNULL
    )
    while "TracerPid:\t0\n" in Path(f"/proc/{process.pid}/status").read_text():
        if tracer.poll() is not None:
            return None
        time.sleep(0.001)
    return tracer


def index_of(material: Material) -> Callable[[Path], Any]:
    """Return what looks at an index."""

    def look_at(folder: Path) -> Any:
        if not (folder / "index.json").exists():
            return None
        done = material.program.call(look_at_index, str(folder))
        if done.status:
            raise ValueError(done.line or done.err)
        return done.out

    return look_at


@attack("kill-build", "kill -9 of `index build`", ENOUGH)
def kill_build(run: Run) -> None:
    material = Material(run)
    codes = material.codes()
    kill_all(
        run,
        material,
        None,
        lambda folder: ("index", "build", "--codes", codes, "--kind", "ivf", "--out", folder, "--json"),
        index_of(material),
    )


def kill_change(run: Run, change: str, *arguments: object) -> None:
    """Kill a change of an index; its kind has a structure on disk."""
    material = Material(run)
    before = material.index("hnsw", vectors=False)
    kill_all(
        run,
        material,
        before,
        lambda folder: ("index", change, "--index", folder, "--json", *arguments),
        index_of(material),
    )


@attack("kill-add", "kill -9 of `index add`", ENOUGH)
def kill_add(run: Run) -> None:
    codes = run.folder / "more.npz"
    made = np.arange(1100, dtype=np.uint16).view(np.uint8).reshape(-1, 2)
    np.savez(codes, codes=made, bits=BITS, labels=np.arange(1100) % 3)
    kill_change(run, "add", "--codes", codes, "--ids", "next")


@attack("kill-remove", "kill -9 of `index remove`", ENOUGH)
def kill_remove(run: Run) -> None:
    removed = ("--ids", ",".join(map(str, IDS[10:700])))  # so many that a segment is rewritten
    kill_change(run, "remove", *removed)


@attack("kill-compact", "kill -9 of `index compact`", ENOUGH)
def kill_compact(run: Run) -> None:
    kill_change(run, "compact")


@attack("kill-train", "kill -9 of `train`; then `train --resume`, bit for bit", ENOUGH)
def kill_train(run: Run) -> None:
    material = Material(run)
    training = ("train", "--data", material.data, *TRAINING, *MONITORED)
    assert material.model  # fills the cache of centers
    kill_all(
        run,
        material,
        None,
        lambda folder: (*training, "--out", folder, "--json"),
        look_at_model,
        partly=True,
        again=lambda folder: (*training, "--out", folder, "--resume", "--json"),
    )


@attack("kill-encode", "kill -9 of `encode` into shards; then the same command, byte for byte", ENOUGH)
def kill_encode(run: Run) -> None:
    material = Material(run)
    model = material.model
    kill_all(
        run,
        material,
        None,
        lambda folder: (
            *("encode", "--model", model, "--data", material.data / "base.npz", "--out", f"{folder}/"),
            *("--shard-rows", 40, "--json"),
        ),
        look_at_codes,
        partly=True,
    )
