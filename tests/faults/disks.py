"""Disks that are full or read-only: one line, and the old state is there; with room again, the same command works."""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tests.faults.attack import Run, attack
from tests.faults.kills import index_of, short
from tests.faults.material import BITS, IDS, TRAINING, Material, look_at_codes, look_at_model
from tests.faults.program import HERE

SIZE = 16 << 20
"""Bytes of the disk."""


class Writing(NamedTuple):
    """A command that writes: the folder as it stands before, if it is there, and what looks at what was written."""

    arguments: tuple
    look: Callable[[Path], Any]
    before: Path | None = None
    again: tuple = ()


def writings(material: Material) -> list[Writing]:
    """Return every command that writes files."""
    codes, more = material.codes(), material.folder / "more.npz"
    made = np.arange(2200, dtype=np.uint16).view(np.uint8).reshape(-1, 2)
    np.savez(more, codes=made, bits=BITS, labels=np.ones(2200, int))
    index, look = material.index("ivf", vectors=False), index_of(material)
    changes = {"add": ("--codes", more, "--id-column", "next"), "remove": ("--ids", ",".join(map(str, IDS[10:700])))}
    encode = ("encode", "--model", material.model, material.data, "--split", "base", "--json", "--out")
    train = ("train", material.data, *TRAINING, "--json", "--out", HERE)
    files = {
        "codes.parquet": encode,
        "codes.npz": encode,
        "export.parquet": ("index", "export", index, "--json", "--out"),
        "neighbors.parquet": ("search", index, "--code", "0f3a", "-k", 900, "--out"),
        "centers.npy": ("centers", "--classes", 20, "--bits", 64, "--out"),
    }

    def read(name: str) -> Callable[[Path], bytes]:
        return lambda there: (there / name).read_bytes()

    return [
        *(
            Writing(("index", name, HERE, "--json", *changes.get(name, ())), look, index)
            for name in ("add", "remove", "compact")
        ),
        Writing(("index", "build", "--codes", codes, "--kind", "ivf", "--json", "--out", HERE), look),
        Writing((*encode, f"{HERE}/"), look_at_codes),
        Writing(train, look_at_model, again=("--overwrite",)),
        *(Writing((*command, f"{HERE}/{name}"), read(name)) for name, command in files.items()),
    ]


def starve(run: Run, refuse: Callable[[Any, Path, Material], Any], disk: Path) -> None:
    """Run the commands where they may not write, look, and run them again where they may."""
    material = Material(run)
    all_writings = writings(material)
    new, used = [], []
    for writing in all_writings:
        there = _there(disk, writing)
        material.program.must(*writing.arguments, here=there)
        new.append(writing.look(there))
        used.append(sum(file.stat().st_size for file in there.rglob("*") if file.is_file()))
    for rng in run.faults():
        number = rng.randrange(len(all_writings))
        writing = all_writings[number]
        there = _there(disk, writing)
        old = None if writing.before is None else writing.look(there)
        with refuse(rng.randrange(used[number] + 4096), disk, material) as how:
            done = material.program(*writing.arguments, here=there)
            what = f"{' '.join(map(str, writing.arguments))[:80]}, {how}"
            if done.crash:
                run.count("crashed", f"{what}: {done.crash}")
                continue
        if done.refused:
            if writing.before is not None and (left := writing.look(there)) != old:
                run.count("wrong", f"{what}: not the old state: {short(left)}")
                continue
            said = any(word in done.line for word in ("space", "large", "Read-only", "denied"))
            if "None" in done.line or str(there) not in done.line or not said:
                run.count("crashed", f"{what}: a line that does not say what is wrong, or where: {done.line}")
                continue
            again = material.program(*writing.arguments, *writing.again, here=there)
            if again.status:
                run.count("crashed", f"{what}; then, with room: {again.crash or again.line}")
                continue
        right = writing.look(there) == new[number]
        run.count(("refused" if done.refused else "survived") if right else "wrong", what)


def _there(disk: Path, writing: Writing) -> Path:
    """Return the folder on an empty disk, as it stands before."""
    for left in disk.iterdir():
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    there = disk / "there"
    if writing.before is not None:
        shutil.copytree(writing.before, there)
    return there


@contextmanager
def small_disk(run: Run) -> Iterator[Path | None]:
    """Make a disk of its own, in memory; None where only an administrator may."""
    disk = run.folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(disk)]
    mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield disk if mounted else None
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(disk)], check=True)


@contextmanager
def filled(room: int, disk: Path, _: Material) -> Iterator[str]:
    """Fill the disk but for so many bytes."""
    free = shutil.disk_usage(disk).free
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(max(0, free - room)))
    try:
        yield f"{room} bytes free"
    finally:
        ballast.unlink()


@contextmanager
def limited(room: int, _: Path, material: Material) -> Iterator[str]:
    """Allow no file above so many bytes."""
    material.program.before = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096 + room, 4096 + room))
    try:
        yield f"files of {4096 + room} bytes at most"
    finally:
        material.program.before = None


@contextmanager
def remounted(_: int, disk: Path, __: Material) -> Iterator[str]:
    """Make the disk read-only."""
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    try:
        yield "read-only"
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)


def starve_small_disk(run: Run, how: Any) -> None:
    """Run the commands on a disk of its own, where that is allowed."""
    with small_disk(run) as disk:
        if disk is None:
            run.note("not tried", "it needs an administrator")
        else:
            starve(run, how, disk)


@attack("disk-full", "every command that writes, on a disk with random room; then again with room", 200)
def disk_full(run: Run) -> None:
    starve_small_disk(run, filled)


@attack("disk-limit", "every command that writes, with a random limit of the size of files; then without", 200)
def disk_limit(run: Run) -> None:
    (run.folder / "disk").mkdir()
    starve(run, limited, run.folder / "disk")


@attack("disk-read-only", "every command that writes, on a read-only disk; then on one that is not", 60)
def disk_read_only(run: Run) -> None:
    starve_small_disk(run, remounted)
