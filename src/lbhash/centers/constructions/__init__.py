"""Constructions of codes with words far apart, a file a family."""
