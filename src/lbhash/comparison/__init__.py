"""Comparison of the ways to store one's own rows: the library's codes beside what one would take instead."""
