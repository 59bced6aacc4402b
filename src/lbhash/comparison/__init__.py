"""Comparison of ways to store rows: the library's codes and the alternatives."""
