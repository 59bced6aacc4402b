"""Binary codes: from ±1 to packed bits and back, and the Hamming distance.

A code of h bits is b in {-1, +1}^h. It is stored packed, as ``np.packbits`` does: a row of ``ceil(h / 8)`` bytes, the
first bit as the highest of the first byte, with +1 as 1 and -1 as 0. The last byte is padded with 0 in its lowest bits.
Codes thus equal sentence-transformers' ``ubinary`` and the bits of databases.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lbhash.utils.arrays import as_array, as_numbers, held
from lbhash.utils.validation import check_choice, check_int

__all__ = [
    "MAX_BITS",
    "PackedCodes",
    "as_packed",
    "as_packed_alike",
    "as_words",
    "check_bits",
    "check_codes",
    "check_same_width",
    "check_width",
    "code_bytes",
    "code_from_hex",
    "convert",
    "hamming_distances",
    "pack",
    "pack_outputs",
    "unpack",
]

MAX_BITS = 1024
"""The largest length of a code that the library accepts."""

PackedCodes = npt.NDArray[np.uint8]


def code_bytes(bits: int) -> int:
    """Return the number of bytes of a packed code of ``bits`` bits: ``ceil(bits / 8)``."""
    return -(-bits // 8)


def check_bits(bits: int, name: str = "bits") -> int:
    """Return the length of a code as an ``int``, or raise an error unless it is an integer from 1 to 1,024."""
    return check_int(bits, name, 1, MAX_BITS)


def check_codes(codes: npt.ArrayLike, name: str = "codes") -> PackedCodes:
    """Return packed codes as a C-contiguous array ``uint8 [n, bytes]``, or raise an error."""
    array = as_array(codes, name)
    if array.dtype != np.uint8:
        raise TypeError(
            f"{name} {'is' if array.ndim == 0 else 'holds'} {held(array)}; packed codes are uint8: "
            "lbhash.pack makes them of ±1 or 0/1"
        )
    if array.ndim != 2 or not 1 <= array.shape[1] <= code_bytes(MAX_BITS):
        raise ValueError(f"{name} has shape {array.shape}; packed codes are [n, 1 to {code_bytes(MAX_BITS)} bytes]")
    return np.ascontiguousarray(array)


def check_width(codes: PackedCodes, bits: int | None, name: str = "codes") -> int:
    """Return the length of codes that ``check_codes`` returned: ``bits``, or 8 * bytes if it is None.

    Raises ``ValueError`` if codes have another number of bytes, or a padding bit of the last byte is set.
    """
    if bits is None:
        return 8 * codes.shape[1]
    _check_bytes(codes, bits, name)
    padding = 0xFF >> bits % 8 if bits % 8 else 0
    if padding and len(codes) and int(np.bitwise_or.reduce(codes[:, -1])) & padding:
        row = int(np.argmax(codes[:, -1] & padding > 0))
        raise ValueError(f"{name} has a bit beyond the first {bits} set in row {row}; bits that pad a code must be 0")
    return int(bits)


def _check_bytes(codes: PackedCodes, bits: int, name: str) -> None:
    if codes.shape[1] != code_bytes(check_bits(bits)):
        raise ValueError(f"{name} has {codes.shape[1]} bytes a row; codes of {bits} bits have {code_bytes(bits)}")


def check_same_width(codes: PackedCodes, others: PackedCodes, name: str, other_name: str) -> None:
    """Raise ``ValueError`` unless the codes of both arrays have the same number of bytes."""
    widths = codes.shape[1], others.shape[1]
    if widths[0] != widths[1]:
        raise ValueError(f"{name} has {widths[0]} bytes a row and {other_name} has {widths[1]}; they must be equal")


def pack(values: npt.ArrayLike) -> PackedCodes:
    """Pack a column for each bit into codes.

    Args:
        values: ``[n, bits]``: Booleans or integers 0 and 1; or real numbers, by their signs, with bin(0) = +1.

    Returns:
        The codes, ``uint8 [n, ceil(bits / 8)]``.

    Raises:
        TypeError, ValueError: the values have another shape, hold NaN, or are floats that are all 0 or 1, which is
            ambiguous.

    >>> pack([[1, -1, -1, 1], [-1, 0, 0, 0]]).tolist(), pack([[1, 0, 0, 1]]).tolist()
    ([[144], [112]], [[144]])
    """
    array = as_numbers(values, "values")
    check_bits(array.shape[1], "the number of columns of values")
    if array.dtype.kind == "b" or (array.dtype.kind in "iu" and array.size and 0 <= array.min() <= array.max() <= 1):
        return np.packbits(array > 0, axis=1)
    if array.dtype.kind == "f" and array.size and (array.min(), array.max()) == (0, 1) and np.isin(array, (0, 1)).all():
        raise ValueError("values holds fractions that are all 0 or 1; it must hold integers or Booleans, or ±1")
    return pack_outputs(array, "values")


def pack_outputs(outputs: npt.NDArray, name: str = "outputs") -> PackedCodes:
    """Return the codes of real outputs ℓ ``[n, bits]``, their signs; ``ValueError`` if one is NaN."""
    if outputs.dtype.kind == "f" and (wrong := np.isnan(outputs).any(axis=1)).any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"{name} holds NaN (first in row {row}); its values must be numbers")
    return np.packbits(outputs >= 0, axis=1)


def as_packed(array: npt.ArrayLike, bits: int | None = None, name: str = "codes") -> tuple[PackedCodes, int]:
    """Return packed codes ``uint8 [n, ceil(bits / 8)]`` and their length from codes in any usual form.

    Args:
        array: packed codes, ``uint8 [n, bytes]``; or one column for each bit, of -1 and +1 (a 0 among them is positive,
            since bin(0) = +1) or of 0 and 1. An array of ``uint8`` that holds only 0 and 1 has one column for each bit.
        bits: the length of a code. If None, it follows from the array. It tells the two forms of ``uint8`` apart.
        name: name of the argument in the ``ValueError`` about an array with none of these forms.

    >>> codes, bits = as_packed([[1, -1, -1, 1]])
    >>> codes.tolist(), bits
    ([[144]], 4)
    """
    given = as_array(array, name)
    if given.ndim != 2 or given.dtype.kind not in "biuf":
        shape = f" {list(given.shape)}" if given.ndim else ""
        raise ValueError(f"{name} is {held(given)}{shape}; it must be [n, bits] of ±1 or 0/1, or packed")
    packed = given.dtype == np.uint8 and (given.max(initial=0) > 1 if bits in (None, 1) else given.shape[1] != bits)
    if packed:
        codes = check_codes(given, name)
        return codes, check_width(codes, bits, name)
    length = check_bits(given.shape[1], f"the number of columns of {name}")
    if bits is not None and bits != length:
        raise ValueError(f"{name} has {length} columns; with {check_bits(bits)} bits it must have {bits}")
    negative = given.min(initial=0) < 0
    for start in range(0, len(given), 8192):
        rows = given[start : start + 8192]
        wrong = ~np.isin(rows, (-1, 0, 1) if negative else (0, 1))
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            wanted = "packed uint8, or hold only -1 and +1, or only 0 and 1 (of real outputs take the signs)"
            raise ValueError(f"{name} is {rows[row, column]} in row {start + row}; it must be {wanted}")
    return np.packbits(given >= 0 if negative else given > 0, axis=1), length


def as_packed_alike(bits: int | None = None, **codes: npt.ArrayLike) -> tuple[list[PackedCodes], int]:
    """Return packed codes ``uint8 [n, ceil(bits / 8)]`` of several arrays that belong together, and their length.

    Args:
        bits: the length of a code. If None, it follows from the arrays.
        codes: arrays by their names in errors, each in a form of ``as_packed``. ``uint8`` arrays count as packed,
            unless ``bits`` or another array implies one column per bit, or they have more than 128 columns. Arrays of 8
            columns or more that all hold only 0 and 1 also count as bits, and a line on standard error says so. Hamming
            distances are the same as for packed codes; only the length differs.

    >>> as_packed_alike(a=[[1, -1, -1, 1]], b=np.array([[True, False, True, False]]))
    ([array([[144]], dtype=uint8), array([[160]], dtype=uint8)], 4)
    """
    arrays = {name: as_array(array, name) for name, array in codes.items()}
    if bits is None:
        bits = _length_of(arrays)
    # Arrays that are not packed gave the length, so their errors come first.
    ordered = sorted(arrays.items(), key=lambda item: item[1].dtype == np.uint8)
    packed = {name: as_packed(array, bits, name)[0] for name, array in ordered}
    return [packed[name] for name in arrays], bits


def _length_of(arrays: Mapping[str, npt.NDArray[Any]]) -> int:
    """Return the length of the codes in arrays; ``uint8`` arrays may be packed."""
    widths = {name: array.shape[1] if array.ndim == 2 else 0 for name, array in arrays.items()}
    for name, array in arrays.items():
        if array.dtype != np.uint8:
            return widths[name]
    most, least = max(widths.values()), min(widths.values())
    wide = [array for name, array in arrays.items() if widths[name] == most]
    if most > code_bytes(MAX_BITS) or (least == code_bytes(most) < most and _are_bits(wide)):
        return most
    if least < most:
        (name, width), (other, reference) = list(widths.items())[:2]
        raise ValueError(f"{name} has {width} bytes a row and {other} has {reference}; they must be equal")
    if most >= 8 and _are_bits(wide) and any(map(np.any, wide)):
        said = f"{' and '.join(arrays)} hold only 0 and 1, and are taken for {most} columns of a bit"
        print(f"{said}; bits {8 * most} takes them for packed codes", file=sys.stderr)
        return most
    return 8 * most


def _are_bits(arrays: Sequence[npt.NDArray[Any]]) -> bool:
    return all(array.max(initial=0) <= 1 for array in arrays)


def code_from_hex(text: str, bits: int) -> PackedCodes:
    """Return the packed code ``uint8 [bytes]`` of hexadecimal digits, two for each byte in the order of the bytes.

    >>> code_from_hex("ffc0", bits=10).tolist()
    [255, 192]
    """
    digits = 2 * code_bytes(bits)
    if re.fullmatch(f"[0-9a-fA-F]{{{digits}}}", text) is None:
        shown = text if len(text) <= 2 * code_bytes(MAX_BITS) else f"{text[:64]}…"
        raise ValueError(f"code is {shown!r}; it must be {digits} hexadecimal digits, for {bits} bits")
    code = np.frombuffer(bytes.fromhex(text), np.uint8)
    check_width(code[None], bits, "code")
    return code


def convert(codes: npt.ArrayLike, bits: int, form: str) -> Any:
    """Return packed codes ``uint8 [n, ceil(bits / 8)]`` in a form that other programs take.

    Args:
        codes: packed; they equal sentence-transformers' ``ubinary``.
        bits: the length of a code.
        form: ``bits``, a list of strings of 0 and 1, one character a bit; ``binary``, ``int8 [n, bytes]``, each byte
            minus 128; or ``hex``, a list of strings, two digits a byte.

    Raises:
        TypeError, ValueError: an argument is not as above.

    >>> convert(pack([[1, -1, -1, 1]]), 4, "bits"), convert(pack([[1, -1, -1, 1]]), 4, "hex")
    (['1001'], ['90'])
    """
    form = check_choice(form, "form", ("bits", "binary", "hex"))
    rows = check_codes(codes)
    check_width(rows, bits)
    if form == "bits":
        return [row.tobytes().decode() for row in np.unpackbits(rows, axis=1, count=bits) + ord("0")]
    return [row.tobytes().hex() for row in rows] if form == "hex" else (rows ^ 128).view(np.int8)


def unpack(codes: npt.ArrayLike, bits: int) -> npt.NDArray[np.int8]:
    """Unpack codes ``uint8 [n, ceil(bits / 8)]`` into signs, ``int8 [n, bits]`` of -1 and +1.

    >>> unpack(pack([[1, -1, -1, 1]]), bits=4).tolist()
    [[1, -1, -1, 1]]
    """
    array = check_codes(codes)
    _check_bytes(array, bits, "codes")
    ones = np.unpackbits(array, axis=1, count=bits).view(np.int8)
    return 2 * ones - 1


def as_words(codes: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    """Return packed codes as 64-bit words, padded with zero bytes: ``uint64 [n, ceil(bytes / 8)]``.

    The padding changes no Hamming distance. The codes are copied only if their width is not a multiple of 8 bytes.
    """
    array = check_codes(codes)
    if padding := -array.shape[1] % 8:
        array = np.pad(array, ((0, 0), (0, padding)))
    return array.view(np.uint64)


def hamming_distances(a: npt.ArrayLike, b: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """Return the Hamming distance of every code of ``a``, ``[n, bytes]``, to every code of ``b``, ``[m, bytes]``.

    The result is ``int32 [n, m]``, in bits. For large sets use ``RankHistogram`` or an index, which do not hold all
    distances.

    >>> hamming_distances(pack([[1, 1, 1]]), pack([[1, 1, 1], [-1, 1, -1]])).tolist()
    [[0, 2]]
    """
    left, right = check_codes(a, "a"), check_codes(b, "b")
    check_same_width(right, left, "b", "a")
    distances = np.zeros((len(left), len(right)), np.int32)
    for byte in range(left.shape[1]):
        distances += _POPCOUNT[left[:, byte, None] ^ right[None, :, byte]]
    return distances


_POPCOUNT = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1, dtype=np.uint8)
