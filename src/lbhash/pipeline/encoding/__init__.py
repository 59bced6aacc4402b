"""Encoding data into codes: open the data, encode it in batches, and write a folder of shards, here or on Ray."""

from lbhash.pipeline.encoding.folder import encode_folder
from lbhash.pipeline.encoding.job import EncodingJob

__all__ = ["EncodingJob", "encode_folder"]
