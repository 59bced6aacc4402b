"""The manifest of an index on disk: what it holds, in which files. Renaming it into place is what commits a change."""

from __future__ import annotations

import json
import os
import re
import secrets
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from lbhash.index.files import sync_folder

NAME = "index.json"
FORMAT = "lbhash index"
VERSION = 1
_BUILD = re.compile(r"[0-9a-f]{16}")
_DATA_FILE = re.compile(r"(\d{8})\.\d+\.[a-z]+\.(npy|arrow|faiss)")


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of an index.

    Raises:
        ValueError: there is no folder, no manifest in it, or it is damaged, foreign or of a newer format.
    """
    if not folder.exists():
        raise ValueError(f"index is {str(folder)!r}, and there is no such folder")
    if not folder.is_dir():
        raise ValueError(f"index is {str(folder)!r}, which is a file; it must be a folder that holds an index")
    try:
        content = (folder / NAME).read_bytes()
    except FileNotFoundError:
        raise ValueError(f"index is {str(folder)!r}, which holds no index: it has no {NAME}") from None
    try:
        manifest = json.loads(content)
        told, known = manifest.pop("checksum"), manifest["format"] == FORMAT
        version = int(manifest["version"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"index is {str(folder)!r}, whose {NAME} is damaged or not of an index") from None
    if known and version > VERSION:
        raise ValueError(
            f"index is {str(folder)!r}, which a newer lbhash wrote (format {version}; this one reads {VERSION})"
        )
    if not known or told != checksum(manifest):
        raise ValueError(f"index is {str(folder)!r}, whose {NAME} is damaged or not of an index")
    if not _BUILD.fullmatch(str(manifest.get("build"))):
        raise ValueError(f"index is {str(folder)!r}, whose {NAME} does not say which build it is of; build it again")
    return manifest


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """Commit: from the moment of the rename on, the folder holds the new index. Only one writer may be at it."""
    manifest = {"format": FORMAT, "version": VERSION, **manifest}
    temporary = folder / f"{NAME}.new"
    with temporary.open("w", encoding="utf-8") as opened:
        json.dump({**manifest, "checksum": checksum(manifest)}, opened, indent=1)
        opened.write("\n")
        opened.flush()
        os.fsync(opened.fileno())
    sync_folder(folder)
    os.replace(temporary, folder / NAME)
    sync_folder(folder)


def new_build() -> str:
    """A random id for an index that is built, 16 hexadecimal digits; every build counts its own generations."""
    return secrets.token_hex(8)


def identity_of(folder: Path) -> tuple[str, int]:
    """The build and the generation that a folder holds: of two folders or times that say the same, the index is one."""
    manifest = read_manifest(folder)
    return manifest["build"], int(manifest["generation"])


def last_generation(folder: Path) -> int:
    """The last generation that a folder has files of, 0 where it has none; its manifest may be damaged or gone.

    A new index must not take the names of files that somebody may have open.
    """
    matches = [_DATA_FILE.fullmatch(file.name) for file in folder.iterdir()]
    last = max((int(match[1]) for match in matches if match), default=0)
    with suppress(ValueError):
        last = max(last, identity_of(folder)[1])
    return last


def sweep(folder: Path, keep: set[str]) -> None:
    """Remove the data files that no manifest names: those of earlier generations, and of writers that were killed."""
    for file in folder.iterdir():
        if file.name == f"{NAME}.new" or (_DATA_FILE.fullmatch(file.name) and file.name not in keep):
            try:
                file.unlink()
            except OSError:  # where open files cannot be removed; the next writer tries again
                continue


def checksum(manifest: dict[str, Any]) -> str:
    """SHA-256 of a manifest, whatever the order of its keys."""
    return sha256(json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
