"""Codes: from ±1 to packed bits and back, Hamming distances, and files of codes."""

from lbhash.codes.packing import (
    MAX_BITS,
    PackedCodes,
    as_packed,
    as_words,
    check_bits,
    check_codes,
    check_same_width,
    check_width,
    code_bytes,
    code_from_hex,
    hamming_distances,
    pack,
    unpack,
)

__all__ = [
    "MAX_BITS",
    "PackedCodes",
    "as_packed",
    "as_words",
    "check_bits",
    "check_codes",
    "check_same_width",
    "check_width",
    "code_bytes",
    "code_from_hex",
    "hamming_distances",
    "pack",
    "unpack",
]
