"""CIFAR-10 and CIFAR-100 from the original Python batches, whose pickles are read and never run."""

from __future__ import annotations

import pickle
import pickletools
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.data.images.stores import ArrayImages
from lbhash.data.images.table import ImageTable
from lbhash.utils.labels import check_labels

CIFAR10 = {"train": [f"data_batch_{number}" for number in range(1, 6)], "held": ["test_batch"]}
CIFAR100 = {"train": ["train"], "held": ["test"]}


def read_cifar(path: str | Path, name: str = "data") -> ImageTable:
    """Read ``cifar-10-batches-py`` or ``cifar-100-python``, of 100 classes the fine ones.

    The batches are pickles, which can run code. These are read by an unpickler that admits nothing but text, numbers,
    lists, dictionaries and arrays of bytes, which is all that the original files hold.

    Source: A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009.

    Args:
        path: the folder.
        name: of the argument, for messages.

    Raises:
        ValueError: a batch is missing, is damaged, or holds something else.
    """
    folder = Path(path)
    hundred = (folder / "train").is_file()
    batches, key = (CIFAR100, b"fine_labels") if hundred else (CIFAR10, b"labels")
    pixels, labels, held = [], [], []
    for part, files in batches.items():
        for file in files:
            held_pixels, held_labels = _batch(folder / file, key, name)
            pixels.append(held_pixels)
            labels += held_labels
            held += [part == "held"] * len(held_pixels)
    mask = np.array(held)
    numbers = check_labels(np.array(labels), f"labels of {name}")
    names = _class_names(folder / ("meta" if hundred else "batches.meta"), hundred)
    return ImageTable(
        ArrayImages(np.concatenate(pixels), folder.name),
        numbers,
        folder.name,
        test_rows=mask,
        protocol="official" if hundred else "cifar10",
        classes=names,
    )


def _batch(file: Path, key: bytes, name: str) -> tuple[npt.NDArray[np.uint8], list[int]]:
    """Pixels ``uint8 [n, 32, 32, 3]`` and labels of one batch."""
    if not file.is_file():
        raise ValueError(f"{name} is {str(file.parent)!r}, which has no batch {file.name!r}")
    held = read_pickle(file)
    if not isinstance(held, dict) or not isinstance(held.get(b"data"), np.ndarray):
        raise ValueError(f"batch {str(file)!r} has no array 'data'; it must be an original batch of CIFAR")
    data, labels = held[b"data"], held.get(key)
    if data.ndim != 2 or data.shape[1] != 3072:
        raise ValueError(f"'data' of batch {str(file)!r} has shape {data.shape}; it must be [n, 3072]")
    if not isinstance(labels, list) or len(labels) != len(data) or not all(type(label) is int for label in labels):
        raise ValueError(f"batch {str(file)!r} has no list {key.decode()!r} of {len(data)} class numbers")
    return np.ascontiguousarray(data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), labels


def _class_names(file: Path, hundred: bool) -> tuple[str, ...]:
    """The names in the ``meta`` file; none where there is no such file."""
    if not file.is_file():
        return ()
    held = read_pickle(file)
    names = held.get(b"fine_label_names" if hundred else b"label_names") if isinstance(held, dict) else None
    return tuple(name.decode("utf-8", "replace") for name in names or () if isinstance(name, bytes))


def read_pickle(file: Path) -> Any:
    """What a pickle of text, numbers, lists, dictionaries and arrays of bytes holds; text comes as bytes.

    Raises:
        ValueError: it holds anything else, or is damaged.
    """
    try:
        data = file.read_bytes()
        _check_memo(data)
        return _with_arrays(_Unpickler(BytesIO(data), encoding="bytes").load())
    except (
        ArithmeticError,
        AttributeError,
        EOFError,
        ImportError,
        LookupError,
        MemoryError,
        pickle.UnpicklingError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        line = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"batch {str(file)!r} is damaged, or no batch of CIFAR: {line}") from None


def _check_memo(data: bytes) -> None:
    """Refuse a pickle that numbers its values beyond their count: the unpickler would make room for all numbers."""
    for code, argument, _ in pickletools.genops(data):
        if code.name.endswith("PUT") and argument is not None and argument > len(data):
            raise pickle.UnpicklingError(f"a value is numbered {argument}, and there are fewer")


class _Array:
    """Stands for an array while its pickle is read, so that none of NumPy's own reconstruction is run."""

    def __setstate__(self, state: Any) -> None:
        _, shape, kind, fortran, data = state
        if not (isinstance(kind, _Bytes) and isinstance(data, bytes)):
            raise pickle.UnpicklingError("an array does not hold bytes (uint8)")
        self.values = np.frombuffer(data, np.uint8).reshape(shape, order="F" if fortran else "C")


class _Bytes:
    """Stands for the number type uint8, the only one that a batch holds."""

    def __init__(self, kind: Any, *_: Any) -> None:
        if kind not in (b"u1", "u1", b"|u1", "|u1"):
            raise pickle.UnpicklingError(f"an array is of type {kind!r}; it must hold bytes (uint8)")

    def __setstate__(self, state: Any) -> None:
        pass  # the byte order, which bytes do not have


def _empty(*_: Any) -> _Array:
    return _Array()


def _latin(text: Any, encoding: Any) -> bytes:
    """How Python 3 writes bytes for Python 2: as text in Latin-1."""
    if not isinstance(text, str) or encoding not in (b"latin1", "latin1"):
        raise pickle.UnpicklingError("bytes are not written as Latin-1")
    return text.encode("latin1")


_ADMITTED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Bytes,
    ("numpy.core.multiarray", "_reconstruct"): _empty,
    ("numpy._core.multiarray", "_reconstruct"): _empty,
    ("_codecs", "encode"): _latin,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """What may be called while a pickle is read: stand-ins of our own, and nothing else."""
        try:
            return _ADMITTED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it would run {module}.{name}, which no batch needs") from None


def _with_arrays(held: Any) -> Any:
    """A dictionary or a list with the arrays that stood in it."""
    if isinstance(held, dict):
        text = {key.encode() if isinstance(key, str) else key: value for key, value in held.items()}
        return {key: value.values if isinstance(value, _Array) else value for key, value in text.items()}
    return held
