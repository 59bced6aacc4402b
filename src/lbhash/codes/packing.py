"""Binary codes: ±1 to packed bits and back, and the Hamming distance.

A code of h bits is b in {-1, +1}^h. It is stored packed: a row of ``ceil(h / 8)`` bytes, bit k in byte
``k // 8`` at position ``k % 8`` (little-endian inside the byte), with +1 as 1 and -1 as 0. The bits that pad the
last byte are 0. This module is the one place that fixes that order. It has a consequence that the guidance uses:
byte j of a code *is* the paper's index of its j-th block of 8 bits, the sum over k of 1{b_k > 0} * 2^(k-1).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

MAX_BITS = 1024
"""Largest length of a code that the library takes."""

PackedCodes = npt.NDArray[np.uint8]


def code_bytes(bits: int) -> int:
    """Number of bytes that one packed code of ``bits`` bits takes: ``ceil(bits / 8)``."""
    return -(-bits // 8)


def check_bits(bits: int, name: str = "bits") -> int:
    """Return ``bits`` as an ``int``.

    Raises:
        TypeError: it is not an integer.
        ValueError: it is not between 1 and 1,024.
    """
    if isinstance(bits, bool) or not isinstance(bits, (int, np.integer)):
        raise TypeError(f"{name} is {bits!r}; it must be an integer from 1 to {MAX_BITS}")
    if not 1 <= bits <= MAX_BITS:
        raise ValueError(f"{name} is {bits}; it must be from 1 to {MAX_BITS}")
    return int(bits)


def check_codes(codes: npt.ArrayLike, name: str = "codes") -> PackedCodes:
    """Return packed codes as a C-contiguous array ``uint8 [n, bytes]``.

    Raises:
        TypeError: the values are not ``uint8``.
        ValueError: the array is not two-dimensional or a row has no byte or too many.
    """
    array = np.asarray(codes)
    if array.dtype != np.uint8:
        raise TypeError(f"{name} holds {array.dtype}; packed codes are uint8 (see lbhash.codes.pack)")
    if array.ndim != 2 or not 1 <= array.shape[1] <= code_bytes(MAX_BITS):
        raise ValueError(f"{name} has shape {array.shape}; packed codes are [n, 1 to {code_bytes(MAX_BITS)} bytes]")
    return np.ascontiguousarray(array)


def check_width(codes: PackedCodes, bits: int | None, name: str = "codes") -> int:
    """Return the length of checked codes, 8 * bytes unless ``bits`` says less.

    Raises:
        TypeError, ValueError: ``bits`` is no such length, or a bit that pads the last byte is set.
    """
    if bits is None:
        return 8 * codes.shape[1]
    if codes.shape[1] != code_bytes(check_bits(bits)):
        raise ValueError(f"{name} has {codes.shape[1]} bytes a row; codes of {bits} bits have {code_bytes(bits)}")
    if bits % 8 and len(codes) and int(codes[:, -1].max()) >> (bits % 8):
        row = int(np.argmax(codes[:, -1] >> (bits % 8) > 0))
        raise ValueError(
            f"{name} has a bit beyond the first {bits} set in row {row}; the bits that pad a code must be 0"
        )
    return int(bits)


def check_same_width(codes: PackedCodes, others: PackedCodes, name: str, other_name: str) -> None:
    """Raise ``ValueError`` unless both have as many bytes a code."""
    if codes.shape[1] != others.shape[1]:
        raise ValueError(
            f"{name} has {codes.shape[1]} bytes a row and {other_name} has {others.shape[1]}; they must be equal"
        )


def pack(signs: npt.ArrayLike) -> PackedCodes:
    """Pack real numbers or signs into codes, by sign, with bin(0) = +1.

    Args:
        signs: ``[n, bits]``, any real numbers; a code is 1 where they are at least 0.

    Returns:
        ``uint8 [n, ceil(bits / 8)]``.

    Raises:
        ValueError: not two-dimensional, or a value is NaN.

    >>> pack([[1, -1, -1, 1], [-1, 0, 0, 0]]).tolist()
    [[9], [14]]
    """
    array = np.asarray(signs)
    if array.ndim != 2:
        raise ValueError(f"signs has shape {array.shape}; it must be [n, bits]")
    check_bits(array.shape[1], "the number of columns of signs")
    if np.issubdtype(array.dtype, np.floating) and np.isnan(array).any():
        row = int(np.flatnonzero(np.isnan(array).any(axis=1))[0])
        raise ValueError(f"signs holds NaN (first in row {row}); its values must be numbers")
    return np.packbits(array >= 0, axis=1, bitorder="little")


def as_packed(array: npt.ArrayLike, bits: int | None = None, name: str = "codes") -> tuple[PackedCodes, int]:
    """Packed codes and their length from codes in any usual form.

    Args:
        array: ``[n, ...]``: packed ``uint8``; or a column a bit, of -1 and +1 (a 0 among them is positive, as bin(0) =
            +1) or of 0 and 1. ``uint8`` of nothing but 0 and 1 is read as a column a bit.
        bits: the length h of a code, by default what the form says. It tells the two forms of ``uint8`` apart.
        name: what to call the argument in an error.

    Returns:
        ``uint8 [n, ceil(bits / 8)]``, and h.

    Raises:
        TypeError, ValueError: it is none of these, or of another length than ``bits``.

    >>> codes, bits = as_packed([[1, -1, -1, 1]])
    >>> codes.tolist(), bits
    ([[9]], 4)
    """
    given = np.asarray(array)
    if given.ndim != 2 or given.dtype.kind not in "biuf":
        raise ValueError(f"{name} is {given.dtype} {list(given.shape)}; it must be [n, bits] of ±1 or 0/1, or packed")
    largest = given.max(initial=0)
    packed = given.dtype == np.uint8 and (largest > 1 if bits is None else given.shape[1] != bits)
    if packed:
        codes = check_codes(given, name)
        return codes, check_width(codes, bits, name)
    length = check_bits(given.shape[1], f"the number of columns of {name}")
    if bits is not None and bits != length:
        raise ValueError(f"{name} has {length} columns; with {check_bits(bits)} bits it must have {bits}")
    negative = given.min(initial=0) < 0
    for start in range(0, len(given), 8192):
        part = given[start : start + 8192]
        wrong = ~np.isin(part, (-1, 0, 1) if negative else (0, 1))
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            raise ValueError(
                f"{name} is {part[row, column]} in row {start + row}; it must be packed uint8, or hold only -1 and +1, "
                "or only 0 and 1 (of real outputs take the signs)"
            )
    return np.packbits(given >= 0 if negative else given > 0, axis=1, bitorder="little"), length


def code_from_hex(text: str, bits: int, name: str = "code") -> PackedCodes:
    """The packed code ``uint8 [bytes]`` of hexadecimal digits, two a byte in the order of the bytes.

    Raises:
        ValueError: they are not those of a code of ``bits`` bits.

    >>> code_from_hex("ff03", bits=10).tolist()
    [255, 3]
    """
    digits = 2 * code_bytes(bits)
    try:
        held = bytes.fromhex(text) if len(text) == digits else b""
    except ValueError:
        held = b""
    if 2 * len(held) != digits:
        shown = text if len(text) <= 2 * code_bytes(MAX_BITS) else f"{text[:64]}…"
        raise ValueError(f"{name} is {shown!r}; it must be {digits} hexadecimal digits, for {bits} bits")
    code = np.frombuffer(held, np.uint8)
    check_width(code[None], bits, name)
    return code


def unpack(codes: npt.ArrayLike, bits: int) -> npt.NDArray[np.int8]:
    """Unpack codes into signs.

    Args:
        codes: ``uint8 [n, ceil(bits / 8)]``.
        bits: the length h of a code.

    Returns:
        ``int8 [n, bits]`` of -1 and +1.

    >>> unpack(pack([[1, -1, -1, 1]]), bits=4).tolist()
    [[1, -1, -1, 1]]
    """
    array = check_codes(codes)
    if code_bytes(check_bits(bits)) != array.shape[1]:
        raise ValueError(f"codes has {array.shape[1]} bytes a row; codes of {bits} bits have {code_bytes(bits)}")
    ones = np.unpackbits(array, axis=1, count=bits, bitorder="little").view(np.int8)
    return 2 * ones - 1


def as_words(codes: npt.ArrayLike, name: str = "codes") -> npt.NDArray[np.uint64]:
    """View packed codes as 64-bit words, padded with zero bytes: ``uint64 [n, ceil(bytes / 8)]``.

    Equal padding on both sides leaves every Hamming distance as it is. Copies only where the width is not a
    multiple of 8 bytes.
    """
    array = check_codes(codes, name)
    padding = -array.shape[1] % 8
    if padding:
        array = np.pad(array, ((0, 0), (0, padding)))
    return array.view(np.uint64)


def hamming_distances(a: npt.ArrayLike, b: npt.ArrayLike) -> npt.NDArray[np.int32]:
    """Hamming distance of every code of ``a`` to every code of ``b``.

    Args:
        a: ``uint8 [n, bytes]``.
        b: ``uint8 [m, bytes]``.

    Returns:
        ``int32 [n, m]``, in bits. It is as large as it says: for large sets use ``RankHistogram`` or an index.

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
