"""``kill -9`` of every command that changes files: the old state or the new is there, or the work goes on."""

from __future__ import annotations

import csv
import random
import re
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.faults.attack import Run, attack
from tests.faults.material import BITS, IDS, MONITORED, TRAINING, Material, look_at_codes, look_at_index, look_at_model
from tests.faults.program import HERE, Program, Started

CALLS = (
    "openat,write,pwrite64,writev,fsync,fdatasync,ftruncate,fallocate,chmod,fchmod,fchmodat,link,linkat,symlink,"
    "rename,renameat,renameat2,unlink,unlinkat,mkdir,rmdir"
)
"""The system calls before which a kill can make a difference to files."""
STRACE = shutil.which("strace")
ENOUGH = 60


def kill_all(
    run: Run,
    program: Program,
    before: Path | None,
    arguments: tuple,
    look_at: Callable[[Path], Any],
    again: tuple | None = None,
) -> None:
    """Kill a command at random moments and, where there is ``strace``, at random system calls.

    Args:
        run: the attack.
        program: what runs the command.
        before: the folder as it stands before, if it is there at all.
        arguments: of the command.
        look_at: what the folder holds, or None if that is nothing yet; an error if it is damaged.
        again: arguments of a command that goes on with what stands there after a kill; if None, that must be the old
            state or the new, and with the old one the same command is run again.
    """

    def fresh() -> Path:
        folder = Path(tempfile.mkdtemp(dir=run.folder)) / "there"
        if before is not None:
            shutil.copytree(before, folder)
        return folder

    def look(folder: Path) -> Any:
        try:
            return look_at(folder) if folder.exists() else None
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    old = None if again or before is None else look_at(before)
    folder = fresh()
    calls = count_calls(program.begin(*arguments, here=folder))
    new = look_at(folder)
    started = time.monotonic()
    program.must(*arguments, here=fresh())
    seconds = time.monotonic() - started
    for rng in run.faults():
        folder = fresh()
        process = program.begin(*arguments, here=folder)
        if calls and rng.random() < 0.7:
            where = kill_at_call(process, *rng.choice(calls))
        else:
            where = kill_at_moment(process, rng, seconds)
        if process.wait().status != -9:  # it had come to its end
            continue
        state = old if again else look(folder)
        if state not in (old, new):
            run.count("wrong", f"killed {where}: neither the old state nor the new: {short(state)}")
        elif state == old:
            done = program(*(again or arguments), here=folder)
            if done.crash or done.refused:
                run.count("crashed", f"killed {where}: the same command again: {done.crash or done.line}")
                continue
            after, left = (
                look(folder),
                [file.name for file in folder.rglob(".*") if file.is_file() and file.name != ".lock"],
            )
            right = after == new and not left
            run.count("survived" if right else "wrong", f"killed {where}, then {left or difference(after, new)}")
        else:
            run.count("survived")
        shutil.rmtree(folder.parent, ignore_errors=True)
    run.note("killed at", "random system calls" if calls else "random moments")


def difference(found: Any, wanted: Any) -> str:
    """Return in a few words how a state differs from the one that it should be."""
    if not isinstance(found, dict) or found.keys() != wanted.keys():
        return short(found)
    name = next((name for name in wanted if found[name] != wanted[name]), "nothing")
    return f"{name} is {short(found.get(name))} in the place of {short(wanted.get(name))}"


def short(state: Any) -> str:
    """Return a state in a few words."""
    return str(state)[:300]


def count_calls(process: Started) -> list[tuple[str, int]]:
    """Run a command to its end, and return its system calls that change files, each with its number among its name."""
    with tempfile.NamedTemporaryFile("r", errors="replace") as log:
        tracer = trace(process, ["-o", log.name])
        done = process.finish()
        assert done.status == 0, done.err
        if tracer is None:
            return []
        tracer.wait()
        found = re.findall(r"^(\d+) +(\w+)\((.*)", log.read(), re.MULTILINE)
    numbers: Counter[tuple[str, str]] = Counter()
    calls = []
    for thread, name, said in found:
        numbers[thread, name] += 1
        if not (name == "openat" and "O_CREAT" not in said) and not (name == "write" and said.startswith(("1,", "2,"))):
            calls.append((name, numbers[thread, name]))
    return calls


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
    """Attach ``strace`` to a command that has not begun; None where there is none, or it is not allowed."""
    if STRACE is None:
        return None
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
    build = ("index", "build", "--codes", material.codes(), "--kind", "ivf", "--out", HERE, "--json")
    kill_all(run, material.program, None, build, index_of(material))


def kill_change(run: Run, change: str, *arguments: object) -> None:
    """Kill a change of an index; its kind has a structure on disk."""
    material = Material(run)
    command = ("index", change, HERE, "--json", *arguments)
    kill_all(run, material.program, material.index("ivf", vectors=False), command, index_of(material))


@attack("kill-add", "kill -9 of `index add`", ENOUGH)
def kill_add(run: Run) -> None:
    codes = run.folder / "more.npz"
    made = np.arange(1100, dtype=np.uint16).view(np.uint8).reshape(-1, 2)
    np.savez(codes, codes=made, bits=BITS, labels=np.arange(1100) % 3)
    kill_change(run, "add", "--codes", codes, "--id-column", "next")


@attack("kill-remove", "kill -9 of `index remove`", ENOUGH)
def kill_remove(run: Run) -> None:
    kill_change(run, "remove", "--ids", ",".join(map(str, IDS[10:700])))  # so many that a segment is rewritten


@attack("kill-compact", "kill -9 of `index compact`", ENOUGH)
def kill_compact(run: Run) -> None:
    kill_change(run, "compact")


@attack("kill-train", "kill -9 of `train`; then `train --resume`, bit for bit", ENOUGH)
def kill_train(run: Run) -> None:
    material = Material(run)
    assert material.model  # fills the cache of centers
    train = ("train", material.data, *TRAINING, *MONITORED, "--out", HERE, "--json")
    kill_all(run, material.program, None, train, look_at_model, (*train, "--resume"))


@attack("kill-encode", "kill -9 of `encode` into a folder; then the same command, byte for byte", ENOUGH)
def kill_encode(run: Run) -> None:
    material = Material(run)
    encode = ("encode", "--model", material.model, material.data / "base.npz", "--out", f"{HERE}/")
    kill_all(run, material.program, None, (*encode, "--json"), look_at_codes, (*encode, "--json"))


@attack("kill-reproduce", "kill -9 of `reproduce`; then the same command, byte for byte", ENOUGH)
def kill_reproduce(run: Run) -> None:
    material = Material(run)
    command = ("reproduce", "map", "--data", material.data, "--bits", BITS, "--epochs", 1, "--seeds", 2, "--workers", 1)
    command += ("--method", "dch", "--out", HERE, "--json")

    def look_at(folder: Path) -> Any:
        return {file.name: file.read_bytes() for file in folder.glob("*.*")}

    kill_all(run, material.program, None, command, look_at, command)


@attack("kill-tune", "kill -9 of `tune`; then the same command, trial for trial", ENOUGH)
def kill_tune(run: Run) -> None:
    material = Material(run)
    command = ("tune", material.data, "--bits", BITS, "--epochs", 1, "--trials", 3, "--json", "--out", HERE)

    def look_at(folder: Path) -> Any:
        best = [line for line in (folder / "best.json").read_text().splitlines() if "seconds" not in line]
        return best, (folder / "model" / "model.safetensors").read_bytes()

    kill_all(run, material.program, None, command, look_at, command)


@attack("kill-compare", "kill -9 of `compare`; then the same command, figure for figure", ENOUGH)
def kill_compare(run: Run) -> None:
    material = Material(run)
    command = ("compare", material.data, "--bits", BITS, "--epochs", 1, "--json", "--out", HERE)

    def look_at(folder: Path) -> Any:
        with (folder / "comparison.csv").open(newline="") as lines:
            return [
                {name: one[name] for name in one if not name.endswith(("_seconds", "_ms"))}
                for one in csv.DictReader(lines)
            ]

    kill_all(run, material.program, None, command, look_at, command)
