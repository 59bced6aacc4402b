"""Files of other systems, such as ``s3://…``, copied into the cache folder."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lbhash.utils.files import make_folder, replacing
from lbhash.utils.paths import cache_folder


def fetched(path: str | Path, name: str) -> str | Path:
    """Return a local copy of an address that ``fsspec`` reads (``s3://…``), and any other path unchanged.

    The copy stays in the cache folder until the address reports a change of the file.
    """
    if "://" not in str(path):
        return path
    import hashlib

    from fsspec.core import url_to_fs

    try:
        system, place = url_to_fs(str(path))
        facts = sorted(map(str, system.info(place).items()))
        key = hashlib.sha256(f"{path}\0{facts}".encode()).hexdigest()[:32]
        copy = cache_folder() / "fetched" / key / Path(place).name
        if not copy.exists():
            make_folder(copy.parent)
            if system.isdir(place):
                with tempfile.TemporaryDirectory(dir=copy.parent) as made:
                    system.get(place, made + "/copy", recursive=True)
                    Path(made, "copy").rename(copy)
            else:
                with replacing(copy) as temporary:
                    system.get_file(place, str(temporary))
    except (ImportError, OSError, ValueError, RuntimeError) as error:
        raise ValueError(f"{name} is {str(path)!r}, which could not be fetched: {error}") from None
    return copy
