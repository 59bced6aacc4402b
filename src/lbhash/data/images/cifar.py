"""Read CIFAR-10 from the original Python batches without running their pickles."""

from __future__ import annotations

import pickle
import pickletools
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.data.images.stores import ListedImages
from lbhash.data.images.table import ImageTable
from lbhash.utils.formatting import one_line
from lbhash.utils.labels import read_labels

FILES = (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch")


def read_cifar(folder: Path) -> ImageTable:
    """Read ``cifar-10-batches-py``.

    The batches are pickles, which can run code. They are read by an unpickler that admits only text, numbers, lists,
    dictionaries and byte arrays; the original files hold nothing else.

    Source: A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.
    """
    from PIL import Image

    batches = [_batch(folder / file) for file in FILES]
    given = [label for _, of_batch in batches for label in of_batch]
    read = read_labels(given, "labels of folder", _class_names(folder / "batches.meta"))
    store = ListedImages([Image.fromarray(one) for pixels, _ in batches for one in pixels])
    test_rows = np.arange(len(read)) >= len(read) - len(batches[-1][1])
    return ImageTable(store, read.numbers, folder.name, {}, test_rows, "cifar10", read.classes)


def _batch(file: Path) -> tuple[npt.NDArray[np.uint8], list[int]]:
    """Return pixels ``uint8 [n, 32, 32, 3]`` and labels of one batch."""
    if not file.is_file():
        raise ValueError(f"folder is {str(file.parent)!r}, which has no batch {file.name!r}")
    content = read_pickle(file)
    if not isinstance(content, dict) or not isinstance(content.get(b"data"), np.ndarray):
        raise ValueError(f"batch {str(file)!r} has no array 'data'; it must be an original batch of CIFAR")
    data, labels = content[b"data"], content.get(b"labels")
    if data.ndim != 2 or data.shape[1] != 3072:
        raise ValueError(f"'data' of batch {str(file)!r} has shape {data.shape}; it must be [n, 3072]")
    if not isinstance(labels, list) or len(labels) != len(data) or not all(type(label) is int for label in labels):
        raise ValueError(f"batch {str(file)!r} has no list 'labels' of {len(data)} class numbers")
    return np.ascontiguousarray(data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), labels


def _class_names(file: Path) -> tuple[str, ...]:
    """Return the class names in a file; () if there is no such file."""
    content = read_pickle(file) if file.is_file() else {}
    names = content.get(b"label_names") if isinstance(content, dict) else None
    return tuple(name.decode("utf-8", "replace") for name in names or () if isinstance(name, bytes))


def read_pickle(file: Path) -> Any:
    """Read a pickle of text, numbers, lists, dictionaries and arrays of bytes; text comes as bytes."""
    data = file.read_bytes()
    try:
        for code, number, _ in pickletools.genops(data):  # the unpickler would reserve memory for every number up to it
            if code.name.endswith("PUT") and number is not None and number > len(data):
                raise pickle.UnpicklingError(f"the pickle refers to value {number}, which it does not hold")
        content = _Unpickler(BytesIO(data), encoding="bytes").load()
        if isinstance(content, dict):
            content = {key: value.values if isinstance(value, _Array) else value for key, value in content.items()}
        return content
    except Exception as error:  # malformed bytes can raise nearly any exception
        raise ValueError(f"batch {str(file)!r} is damaged, or not a batch of CIFAR: {one_line(error)}") from None


class _Array:
    """Stands for an array while its pickle is read, so that NumPy's reconstruction code never runs."""

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, data = state
        if not (isinstance(kind, _Bytes) and isinstance(data, bytes)):
            raise pickle.UnpicklingError("an array does not hold bytes (uint8)")
        self.values = np.frombuffer(data, np.uint8).reshape(shape, order="F" if fortran else "C")


class _Bytes:
    """Stands for the number type uint8, the only one in a batch."""

    def __init__(self, kind: Any, *_: Any) -> None:
        if kind != b"u1":
            raise pickle.UnpicklingError(f"an array is of type {kind!r}; it must hold bytes (uint8)")

    def __setstate__(self, state: Any) -> None:
        pass  # the byte order, which uint8 does not need


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Bytes,
    ("numpy.core.multiarray", "_reconstruct"): lambda *_: _Array(),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Return the stand-in of this module for a name in a pickle; refuse all other names."""
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"it would run {module}.{name}, which no batch needs")
        return _ADMITTED[module, name]
