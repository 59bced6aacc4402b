"""Describe the content of a path: a model, an index or codes."""

from __future__ import annotations

from typing import Any

from lbhash.codes.io import READABLE, read_codes
from lbhash.index import Index
from lbhash.index.manifest import NAME
from lbhash.index.store import OPENED_BY
from lbhash.models.encoder import load_encoder
from lbhash.utils.formatting import some_names
from lbhash.utils.parts import MANIFEST
from lbhash.utils.paths import check_path


def info(path: str) -> dict[str, Any]:
    """Return the facts about a model, an index or codes; ``what`` tells which one it is.

    Raises:
        ValueError: the path holds none of them, or is damaged.
    """
    folder = check_path(path, "path")
    if str(path).startswith(tuple(OPENED_BY)) or (folder / NAME).exists():
        return {"what": "index", "path": path, **Index.open(path).info()}
    if any((folder / name).exists() for name in ("config.json", "model.safetensors")):
        model = load_encoder(path, name="path")
        takes = "texts" if model.takes_texts else "images" if "backbone" in model.metadata else "embeddings"
        facts = {"bits": model.bits, "takes": takes, "numbers": model.dim, "fingerprint": model.fingerprint()}
        return {"what": "model", "path": path, **facts, **model.metadata}
    if (folder / MANIFEST).exists() or (folder.is_file() and folder.suffix in READABLE):
        table = read_codes(path, "path")
        columns = [] if table.extra_columns is None else table.extra_columns.schema
        facts = {"codes": len(table.codes), "bits": table.bits, "bytes": table.codes.nbytes, "model": table.model}
        facts |= {"labels": table.labels is not None, "metadata": {one.name: str(one.type) for one in columns}}
        return {"what": "codes", "path": path, **facts}
    must = "it must be a model, an index or a file of codes"
    if not folder.exists():
        raise ValueError(f"path is {path!r}, and there is no such file or folder; {must}")
    if not folder.is_dir():
        raise ValueError(f"path is {path!r}, a file of none of the kinds {', '.join(READABLE)}; {must}")
    holds = some_names(sorted(one.name for one in folder.iterdir())) or "nothing"
    raise ValueError(f"path is {path!r}, a folder that holds {holds}; {must}")
