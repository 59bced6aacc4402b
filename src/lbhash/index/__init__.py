"""Search in Hamming space."""

from lbhash.index.flat import FlatIndex

__all__ = ["FlatIndex"]
