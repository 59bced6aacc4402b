"""The manifest of an index on disk: the list of its files. Renaming a new manifest into place commits a change."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from lbhash.index.files import BLOCK, Entry
from lbhash.utils.files import sync, write_text
from lbhash.utils.paths import folder_with
from lbhash.utils.serialization import read_versioned

NAME = "index.json"
FORMAT = "lbhash index"
VERSION = 7
FILES = ("codes", "sizes", "positions", "ids", "metadata", "vectors", "structure", "removed")
"""The keys of a segment's entry that stand for files."""
_DATA_FILE = re.compile(r"(\d{8})\.\d+\.[a-z]+\.(npy|arrow|faiss)")


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of an index; ``ValueError`` if it is missing, damaged, foreign or of another format."""
    source = f"path is {str(folder)!r}"
    content = (folder_with(folder, "path", "a folder that holds an index", NAME) / NAME).read_bytes()
    manifest = read_versioned(content, FORMAT, VERSION, source, "build the index again")
    if manifest is not None and manifest.pop("checksum", "") == checksum(manifest) and _well_formed(manifest):
        return manifest
    raise ValueError(f"{source}, whose {NAME} is damaged or not that of an index; build the index again")


def write_manifest(folder: Path, manifest: dict[str, Any]) -> str:
    """Commit a change by renaming a new manifest into place; the caller must be the only writer.

    Returns the manifest's checksum.
    """
    manifest = {"format": FORMAT, "version": VERSION, **manifest}
    own = checksum(manifest)
    sync(folder)  # the directory entries of the files it lists
    write_text(folder / NAME, json.dumps({**manifest, "checksum": own}, indent=1) + "\n")
    return own


def _well_formed(manifest: dict[str, Any]) -> bool:
    """Return whether all values have the types and all lists the lengths that reading an index relies on.

    A valid checksum does not prove this: anyone who can write to the folder can compute one.
    """
    try:
        kept = manifest["kept"] or {}
        counts = [manifest["bits"], manifest["generation"], manifest["next_id"], kept.get("dim", 1)]
        texts = [manifest["model"], manifest["build"], manifest["schema"] or "", kept.get("scales", "")]
        right = {"kind", "learns_classes"} <= manifest.keys() and isinstance(manifest["options"], dict)
        right &= kept.get("dtype", "float16") in ("float16", "int8", "uint8")
        if "dim" in kept:  # four bytes per number, in base64
            right &= len(texts[-1]) == (-(-4 * kept["dim"] // 3) * 4 if kept["dtype"] == "int8" else 0)
        for segment in manifest["segments"]:
            needed = ["codes"] + ["vectors"] * ("dim" in kept) + ["sizes", "positions"] * ("distinct" in segment)
            files = [segment[name] for name in FILES if name in segment or name in needed]
            counts += [segment["rows"], segment.get("distinct", 0), abs(segment.get("first", 0))]
            counts += [file["bytes"] for file in files]
            counts += [segment["removed"]["rows"]] if "removed" in segment else []
            if "structure" in segment:
                probes = segment["probes"]
                counts += [probes["nprobe"], probes["nlist"], probes["rows"], int(probes["recall"])]
            for file in files:
                right &= _DATA_FILE.fullmatch(file["file"]) is not None
                right &= len(file["xxh3"]) == 16 * -(-file["bytes"] // BLOCK)
        numbers = all(type(count) is int and 0 <= count <= 2**63 for count in counts)
        return right and numbers and all(isinstance(text, str) for text in texts)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        return False


def identity_of(manifest: dict[str, Any]) -> tuple[str, int, str]:
    """Return ``State.identity`` of the index that has this manifest."""
    return manifest["build"], int(manifest["generation"]), checksum(manifest)


def last_generation(folder: Path) -> int:
    """Return the last generation that has files in a folder, or 0; readers may have these files open."""
    matches = [_DATA_FILE.fullmatch(file.name) for file in folder.iterdir()]
    last = max((int(match[1]) for match in matches if match), default=0)
    with suppress(ValueError):
        last = max(last, read_manifest(folder)["generation"])
    return last


def files_of(segment: dict[str, Any]) -> list[Entry]:
    """Return the entries of the files that a segment's entry names."""
    return [segment[name] for name in FILES if name in segment]


def sweep(folder: Path) -> None:
    """Remove all data files that the manifest does not list: old generations and leftovers of killed writers.

    What cannot be removed, such as open files on Windows, is left to the next writer.
    """
    with suppress(OSError, ValueError):
        segments = read_manifest(folder)["segments"] if (folder / NAME).exists() else []
        named = {file["file"] for segment in segments for file in files_of(segment)}
        for file in folder.iterdir():
            if _DATA_FILE.fullmatch(file.name) and file.name not in named:
                with suppress(OSError):
                    file.unlink()


def checksum(manifest: dict[str, Any]) -> str:
    """Return the SHA-256 of a manifest, which does not depend on the order of its keys."""
    return sha256(json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
