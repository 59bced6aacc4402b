"""The texts of the tables in Markdown; the text of NAME.csv is in ``NAME.md``."""

from __future__ import annotations

from importlib.resources import files
from typing import Any


def text(*names: str, **values: Any) -> str:
    """Return texts one after the other, with ``values`` in place of the names in braces."""
    found = [(files(__name__) / f"{name}.md").read_text(encoding="utf-8").strip() for name in names]
    return "\n\n".join(found).format(**values)
