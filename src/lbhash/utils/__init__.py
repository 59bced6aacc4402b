"""Helpers without any logic of hashing: files, labels, checks, progress, parallel runs and plotting."""
