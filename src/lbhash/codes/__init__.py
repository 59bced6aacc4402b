"""Codes: from ±1 to packed bits and back, Hamming distances, and files of codes."""

from lbhash.codes.packing import *  # noqa: F403
