"""Encoding a large collection: shard by shard, on one machine or a Ray cluster, taken up where it stopped."""

from lbhash.pipeline.encoding.folder import ENGINES, encode_folder
from lbhash.pipeline.encoding.job import Job

__all__ = ["ENGINES", "Job", "encode_folder"]
