"""The manifest of an index on disk: the list of its files. Renaming a new manifest into place commits a change."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from lbhash.index.attributes import schema_from_text
from lbhash.index.files import Entry, open_regular
from lbhash.utils.files import sync
from lbhash.utils.serialization import read_versioned

NAME = "index.json"
FORMAT = "lbhash index"
VERSION = 3
FILES = ("codes", "sizes", "positions", "ids", "attributes", "vectors", "structure", "removed")
"""The keys of a segment's entry that stand for files."""
_DATA_FILE = re.compile(r"(\d{8})\.\d+\.[a-z]+\.(npy|arrow|faiss)")
_ENDS = {"attributes": ".arrow", "structure": ".faiss"}


class _InvalidError(Exception):
    """Says what of a manifest is not valid."""


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of an index; ``ValueError`` if it is missing, damaged, foreign or of another format."""
    source = f"index is {str(folder)!r}"
    if not folder.exists():
        raise ValueError(f"{source}, and there is no such folder")
    if not folder.is_dir():
        raise ValueError(f"{source}, which is a file; it must be a folder that holds an index")
    try:
        with open_regular(folder / NAME) as opened:
            content = opened.read()
    except FileNotFoundError:
        raise ValueError(f"{source}, which holds no index: it has no {NAME}") from None
    except (IsADirectoryError, ValueError):
        raise ValueError(f"{source}, whose {NAME} is no regular file") from None
    manifest = read_versioned(content, FORMAT, VERSION, source, "build the index again")
    try:
        whole = manifest is not None and manifest.pop("checksum", "") == checksum(manifest)
    except RecursionError:
        whole = False
    if manifest is None or not whole:
        raise ValueError(f"{source}, whose {NAME} is damaged or not of an index")
    try:
        _check(manifest)
    except _InvalidError as error:
        raise ValueError(f"{source}, whose {NAME} has {error}; build the index again") from None
    return manifest


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Commit a change, as the only writer: once the new manifest is renamed, the folder holds the new index."""
    manifest = {"format": FORMAT, "version": VERSION, **manifest}
    temporary = folder / f"{NAME}.new"
    temporary.unlink(missing_ok=True)  # what a killed writer left, or a link, which is not to be followed
    with temporary.open("x", encoding="utf-8") as opened:
        json.dump({**manifest, "checksum": checksum(manifest)}, opened, indent=1)
        opened.write("\n")
        opened.flush()
        os.fsync(opened.fileno())
    sync(folder)
    os.replace(temporary, folder / NAME)
    sync(folder)


def identity_of(folder: Path) -> tuple[str, int]:
    """Return the build and the generation that a folder holds (``State.identity``)."""
    manifest = read_manifest(folder)
    return manifest["build"], int(manifest["generation"])


def last_generation(folder: Path) -> int:
    """Return the last generation of which a folder has files, or 0. Readers may have these open."""
    matches = [_DATA_FILE.fullmatch(file.name) for file in folder.iterdir()]
    last = max((int(match[1]) for match in matches if match), default=0)
    with suppress(ValueError):
        last = max(last, identity_of(folder)[1])
    return last


def files_of(segment: dict[str, Any]) -> list[Entry]:
    """Return the entries of the files that a segment's entry names."""
    return [segment[name] for name in FILES if name in segment]


def sweep(folder: Path, manifest: dict[str, Any]) -> None:
    """Remove all data files but those that the manifest names: old generations, and leftovers of killed writers."""
    named = {file["file"] for segment in manifest["segments"] for file in files_of(segment)}
    for file in folder.iterdir():
        if file.name == f"{NAME}.new" or (_DATA_FILE.fullmatch(file.name) and file.name not in named):
            with suppress(OSError):  # on Windows open files cannot be removed; the next writer tries again
                file.unlink()


def checksum(manifest: dict[str, Any]) -> str:
    """Return the SHA-256 of a manifest, which does not depend on the order of its keys."""
    return sha256(json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _check(manifest: dict[str, Any]) -> None:
    """Raise ``_InvalidError`` unless a manifest, which may be made by hand, has what an index needs, in its types."""
    _demand(manifest, "", _MANIFEST)
    try:
        schema = schema_from_text(manifest["schema"])
    except (ValueError, OSError):
        raise _InvalidError("no valid schema") from None
    kept = manifest["kept"] or {}
    if manifest["kept"] is not None:
        _demand(kept, "kept.", {"vectors": _text("outputs|embeddings")})
    if "dim" in kept:
        _demand(kept, "kept.", {"dim": _number(1), "dtype": _text("uint8|float16")})
    wanted = {"codes": True, "attributes": bool(schema), "vectors": "dim" in kept}
    names: set[str] = set()
    for number, segment in enumerate(manifest["segments"]):
        where = f"segments[{number}]"
        _demand({where: segment}, "", {where: _kind(dict)})
        _check_segment(segment, f"{where}.", wanted, manifest["next_id"])
        for entry in files_of(segment):
            if entry["file"] in names:
                raise _InvalidError(f"the file {entry['file']!r} twice")
            names.add(entry["file"])


def _check_segment(segment: dict[str, Any], where: str, wanted: dict[str, bool], next_id: int) -> None:
    """Check the entry of a segment, and those of its files."""
    _demand(segment, where, {"rows": _number(1)})
    rows = segment["rows"]
    for name in FILES:
        if name in wanted and (name in segment) != wanted[name]:
            raise _InvalidError(f"{'no' if wanted[name] else 'unknown'} {where}{name}")
        if name in segment:
            _demand(segment, where, {name: _kind(dict)})
            _check_file(segment[name], name, f"{where}{name}.")
    if len({name in segment for name in ("distinct", "sizes", "positions")}) > 1:
        raise _InvalidError(f"some and not all of {where}distinct, {where}sizes and {where}positions")
    if ("ids" in segment) == ("first" in segment):
        raise _InvalidError(f"both or none of {where}ids and {where}first")
    if "distinct" in segment:
        _demand(segment, where, {"distinct": _number(1, rows)})
    if "first" in segment:  # all ids are below next_id
        _demand(segment, where, {"first": _number(0, next_id - rows)})
    if "removed" in segment:
        _demand(segment["removed"], f"{where}removed.", {"rows": _number(1, rows)})


def _check_file(entry: dict[str, Any], kind: str, where: str) -> None:
    """Check the entry of a file: its name is one that the index gives, so that it leads to no other folder."""
    _demand(entry, where, _FILE)
    name = entry["file"]
    if not _DATA_FILE.fullmatch(name) or not name.endswith(f".{kind}{_ENDS.get(kind, '.npy')}"):
        raise _InvalidError(f"the file {name!r} as {where[:-1]}, and not one that an index names so")
    if len(entry["xxh3"]) != 16 * -(-entry["bytes"] // entry["block"]):
        raise _InvalidError(f"no valid {where}xxh3")


def _demand(facts: dict[str, Any], where: str, forms: Mapping[str, Callable[[Any], bool]]) -> None:
    """Raise ``_InvalidError`` unless each of these values is there, in its form."""
    for name, fits in forms.items():
        if name not in facts or not fits(facts[name]):
            raise _InvalidError(f"no valid {where}{name}")


def _kind(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: type(value) in kinds


def _number(least: int, most: int = 2**62) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value <= most


def _text(form: str) -> Callable[[Any], bool]:
    return lambda value: type(value) is str and re.fullmatch(form, value, re.DOTALL) is not None


_MANIFEST = {
    "build": _text("[0-9a-f]{16}"),
    "kind": _text(".*"),
    "model": _text(".*"),
    "bits": _number(1),
    "generation": _number(0),
    "next_id": _number(0, 2**63),
    "options": _kind(dict),
    "schema": _kind(str, type(None)),
    "kept": _kind(dict, type(None)),
    "segments": _kind(list),
}
_FILE = {"file": _text(".*"), "bytes": _number(1), "block": _number(1), "xxh3": _text("[0-9a-f]+")}
