"""Data sets and their splits, by name or from files."""

from __future__ import annotations

from lbhash.data.dataset import Dataset
from lbhash.data.images import load_images
from lbhash.data.loading import load_dataset, load_table

__all__ = ["Dataset", "load_dataset", "load_images", "load_table"]
