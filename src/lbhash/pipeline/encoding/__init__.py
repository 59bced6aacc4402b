"""Encoding: from a model and data to batches of codes, in this process or on a Ray cluster."""
