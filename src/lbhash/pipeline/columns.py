"""Further columns of the data that travel with the codes: into their file, and from there into an index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from lbhash.codes.io import OWN_COLUMNS
from lbhash.data.images import FileImages, ImageTable, holds_images
from lbhash.pipeline.embeddings import ImageOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from lbhash.hasher import Hasher

PATH = "path"
"""The column of images in files of their own: where each lies, seen from the data's folder."""


class Carried(Protocol):
    """Columns, a row for each row of the data."""

    def take(self, rows: npt.NDArray[np.int64]) -> pa.Table:
        """These rows of them, in this order."""


class ImagePaths:
    """Where images lie, as the column ``path``.

    Args:
        table: images in files.

    Raises:
        ValueError: they lie elsewhere.
    """

    def __init__(self, table: ImageTable) -> None:
        if not isinstance(table.store, FileImages):
            raise ValueError(f"carry is {PATH}, and the images of {table.name} are not in files of their own")
        self._files = table.store.files

    def take(self, rows: npt.NDArray[np.int64]) -> pa.Table:
        """The paths of these rows."""
        import pyarrow as pa

        return pa.table({PATH: pa.array([self._files[row] for row in rows.tolist()], pa.string())})


def check_carry(data: str | Path, names: Sequence[str], *, alone: bool = True) -> list[str]:
    """The names of further columns, each once.

    Args:
        data: one Parquet file, whose columns they are; or images in files, which have ``path``.
        names: of the columns.
        alone: whether ``data`` are all rows, and not one of several files of them.

    Raises:
        ValueError: ``data`` has no such columns.
    """
    if not names:
        return []
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not alone or not Path(data).is_file() or Path(data).suffix != ".parquet":
        if set(names) == {PATH} and alone and holds_images(data):
            return [PATH]
        raise ValueError(
            f"carry is {', '.join(names)} and data is {str(data)!r}; it must be one .parquet file, or for {PATH!r} a "
            "folder of images"
        )
    try:
        known = pq.read_schema(data).names
    except (OSError, pa.ArrowInvalid) as error:
        raise ValueError(f"data is {str(data)!r}, which could not be read: {' '.join(str(error).split())}") from None
    for name in names:
        if name in OWN_COLUMNS or name not in known:
            others = ", ".join(column for column in known if column not in OWN_COLUMNS)
            raise ValueError(f"carry has {name!r}; it must name columns of the data ({others})")
    return list(dict.fromkeys(names))


def carried_columns(
    data: str | Path, names: Sequence[str], hasher: Hasher, images: ImageOptions | None = None
) -> pa.Table | None:
    """Further columns, a row for each row of the data; ``None`` where none are named.

    Args:
        data: as of ``check_carry``.
        names: what that returned.
        hasher: the model, which knows which images of an ImageNet are meant.
        images: how images are found.
    """
    if not names:
        return None
    import pyarrow as pa
    import pyarrow.parquet as pq

    if Path(data).suffix != ".parquet":
        table = (images or ImageOptions()).table(data, hasher)
        return ImagePaths(table).take(np.arange(len(table)))
    try:
        return pq.read_table(data, columns=list(names))
    except (OSError, pa.ArrowInvalid) as error:
        raise ValueError(f"data is {str(data)!r}, which could not be read: {' '.join(str(error).split())}") from None
