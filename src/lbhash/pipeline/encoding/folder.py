"""A folder of codes: begun, gone on with, finished."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from lbhash.codes import code_bytes
from lbhash.codes.shards import MANIFEST, SHARD_ROWS, Shard, read_manifest, shards_of, write_manifest
from lbhash.pipeline.encoding.job import Job
from lbhash.pipeline.encoding.shards import Done, encode_shards, find_done
from lbhash.pipeline.encoding.source import mark_of
from lbhash.utils.files import check_folder, replacing
from lbhash.utils.progress import counted

ENGINES = ("local", "ray")
DAMAGED = "_damaged.csv"
_SHARDS = "part-*-of-*.parquet"
_LOCK = ".lock"
_UNFINISHED = (".part-", f".{MANIFEST}.", f".{DAMAGED}.")
"""How the names of files begin that a run which was killed left behind."""

_SAID = {
    "model": "of model {}",
    "bits": "of {} bits",
    "backbone": "of images embedded by the backbone {}",
    "precision": "of precision {}",
    "data": "of data {}",
    "split": "of split {}",
    "rows": "of {} rows",
    "carry": "with the further columns {}",
    "fingerprint": "of data with the fingerprint {}",
    "content": "of rows and labels with the fingerprint {}",
}
"""What makes a folder's codes others than a run's, in the order in which it is looked at."""


def encode_folder(
    job: Job,
    out: str | Path,
    *,
    shard_rows: int | None = None,
    engine: str = "local",
    ray_address: str | None = None,
    overwrite: bool = False,
    progress: bool = True,
) -> dict[str, Any]:
    """Encode rows of any number into a folder of codes, which ``lbhash.codes.io.read_codes`` reads.

    The memory is that of a few batches, of a shard's codes, and of number and label of every row. Shards are written as
    they are done, each whole; the same call again goes on where the last one stopped, and leaves the same files. A
    manifest says what the folder holds codes of, so that another model or other data are refused, files being known by
    names, sizes and times of change; and at the end that the folder is complete. Rows without a code are named in
    ``_damaged.csv``.

    Args:
        job: what is to be encoded.
        out: the folder.
        shard_rows: rows of a shard; the folder's own where it has shards, else 65,536.
        engine: ``local``, this process; or ``ray``, a cluster whose machines see the same files by the same paths.
        ray_address: of the cluster; one of this machine is started, and ended, where it is not given.
        overwrite: begin anew, whatever the folder holds codes of.
        progress: show a bar on standard error.

    Returns:
        The numbers of ``codes``, ``rows``, ``damaged`` rows and ``shards``; how many shards were ``found``; ``bits`` of
        a code, ``bytes`` of all; the ``seconds`` that the other shards took; ``out`` and ``split``.

    Raises:
        TypeError, ValueError: what ``open_job`` refuses; the folder holds something else; another run writes to it; or
            an image is damaged that is not to be skipped, or all are.
    """
    from lbhash.pipeline.encoding.factory import open_job

    if engine not in ENGINES:
        raise ValueError(f"engine is {engine!r}; it must be {' or '.join(ENGINES)}")
    if ray_address is not None and engine != "ray":
        raise ValueError(f"ray_address is {ray_address!r} and engine is {engine!r}; it is for the engine ray")
    if engine == "ray":
        from lbhash.pipeline.encoding.ray import check_ray

        check_ray()
    folder = Path(out)
    _check_place(folder)
    job, source = open_job(job, progress=progress)
    identity = source.identity
    mark = mark_of(identity)
    with _alone(folder):
        shard_rows = _begin(folder, identity, shard_rows, overwrite)
        shards = shards_of(len(source.rows), shard_rows)
        missing = [shard for shard in shards if find_done(folder, shard, mark) is None]
        before = len(source.rows) - sum(map(len, missing))
        started = time.perf_counter()
        with counted("encoding", len(source.rows), source.unit, done=before, show=progress) as advance:
            if engine == "local":
                encode_shards(source, missing, folder, advance)
            elif missing:
                from lbhash.pipeline.encoding.ray import encode_on_ray

                encode_on_ray(job, identity, missing, folder, ray_address, advance)
        seconds = time.perf_counter() - started
        codes, damaged = _finish(folder, identity, shards, shard_rows)
    return {
        "codes": codes,
        "rows": len(source.rows),
        "damaged": damaged,
        "bits": source.hasher.bits,
        "bytes": codes * code_bytes(source.hasher.bits),
        "split": job.split,
        "unit": source.unit,
        "shards": len(shards),
        "found": len(shards) - len(missing),
        "seconds": round(seconds, 3),
        "out": str(out),
    }


def _check_place(folder: Path) -> None:
    """Raise ``ValueError`` where a folder cannot be one of codes, before a model is loaded."""
    check_folder(folder, "out", ", or end in .parquet or .npz")
    if not folder.exists() or (folder / MANIFEST).exists():
        return
    others = [file.name for file in folder.iterdir() if file.name != _LOCK and not file.name.startswith(_UNFINISHED)]
    if others:
        raise ValueError(
            f"out is {str(folder)!r}, a folder that holds {sorted(others)[0]!r} and no codes; give another folder"
        )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """While no other run writes to the folder; the lock goes with a run that is killed.

    A run that fails before its first shard leaves nothing, and no folder that was not there.
    """
    from filelock import FileLock, Timeout

    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / _LOCK, timeout=0):
            begun = not (folder / MANIFEST).exists()
            try:
                yield
            except Exception:
                if begun and not any(folder.glob(_SHARDS)):
                    _leave(folder, made)
                raise
    except Timeout:
        raise ValueError(f"out is {str(folder)!r}, which another run writes to; wait for it, or end it") from None


def _leave(folder: Path, remove: bool) -> None:
    for file in folder.iterdir():
        if file.name in (MANIFEST, _LOCK) or file.name.startswith(_UNFINISHED):
            with suppress(OSError):  # of a lock that is held, where a system does not allow it
                file.unlink()
    if remove:
        with suppress(OSError):
            folder.rmdir()


def _begin(folder: Path, identity: dict[str, Any], shard_rows: int | None, overwrite: bool) -> int:
    """Make sure that the folder is this run's, and say in its manifest what it holds codes of.

    Returns:
        The rows of a shard.
    """
    for file in folder.iterdir():
        if file.name.startswith(_UNFINISHED):
            file.unlink()
    if (folder / MANIFEST).exists() and not overwrite:
        held = read_manifest(folder, "out")
        _check_same(folder, held, identity, shard_rows)
        return held["shard_rows"]
    shard_rows = SHARD_ROWS if shard_rows is None else shard_rows
    shards_of(identity["rows"], shard_rows)  # refuses a bad number while the old shards are there
    # The manifest goes last, so that shards without one are none.
    for file in (*folder.glob(_SHARDS), folder / DAMAGED, folder / MANIFEST):
        file.unlink(missing_ok=True)
    write_manifest(folder, {**identity, "shard_rows": shard_rows})
    return shard_rows


def _check_same(folder: Path, held: dict[str, Any], identity: dict[str, Any], shard_rows: int | None) -> None:
    for name, said in _SAID.items():
        theirs, ours = held.get(name), identity.get(name)
        if theirs != ours:
            raise ValueError(
                f"out is {str(folder)!r}, whose codes are {said.format(_plain(theirs))} and this run's "
                f"{said.format(_plain(ours))}; give another folder, or --overwrite"
            )
    if shard_rows not in (None, held["shard_rows"]):
        raise ValueError(
            f"shard_rows is {shard_rows} and out is {str(folder)!r}, whose shards have {held['shard_rows']}; leave it "
            "out, or --overwrite"
        )


def _plain(value: Any) -> str:
    listed = value if isinstance(value, list) else [value]
    return ", ".join(map(str, listed)) if value else "none"


def _finish(folder: Path, identity: dict[str, Any], shards: Sequence[Shard], shard_rows: int) -> tuple[int, int]:
    """Look at every shard again, name the rows that are damaged, and say in the manifest that the folder is complete.

    Returns:
        The numbers of codes and of damaged rows.
    """
    mark = mark_of(identity)
    done: list[Done] = []
    for shard in shards:
        one = find_done(folder, shard, mark)
        if one is None:
            raise ValueError(f"out is {str(folder)!r}, where {shard.name} is missing or not whole; run the same again")
        done.append(one)
    damaged = [damage for one in done for damage in one.damaged]
    codes = sum(one.codes for one in done)
    if not codes:
        raise ValueError(f"no image could be read: {damaged[0].fault}")
    if damaged:
        with replacing(folder / DAMAGED) as temporary, temporary.open("w", encoding="utf-8", newline="") as opened:
            table = csv.writer(opened)
            table.writerow(("row", "where", "fault"))
            table.writerows(damaged)
    complete = {"codes": codes, "damaged": len(damaged)}
    write_manifest(folder, {**identity, "shard_rows": shard_rows, "complete": complete})
    return codes, len(damaged)
