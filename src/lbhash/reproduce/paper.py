"""The paper's figures in its own units: metrics in %, distances in bits, seconds of an epoch.

Source: "A Lower Bound of Hash Codes' Performance" (NeurIPS 2022), with a ResNet-50 trained end to end.
The numbers are in ``paper.json``.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def _by_bits(found: dict[str, Any]) -> dict[str | int, Any]:
    """Return a JSON object with integers for those keys that are numbers of bits."""
    return {int(key) if key.isdigit() else key: value for key, value in found.items()}


_REPORTED = json.loads((files("lbhash.reproduce") / "paper.json").read_text(encoding="utf-8"), object_hook=_by_bits)

Pairs = dict[str, dict[int, tuple[float, float]]]
"""Host and guided host, by method and bits."""

MAP: dict[str, Pairs] = _REPORTED["map"]
"""mAP by the paper's name of the data."""

RECOGNITION: dict[str, Pairs] = _REPORTED["recognition"]
"""Accuracy of recognition by the paper's name of the data."""

CENTERS: dict[str, dict[str, dict[int, tuple[float, int]]]] = _REPORTED["centers"]
"""mAP of CSQ_D and the centers' minimum distance, by data, kind of centers and bits."""

SECONDS: dict[str, dict[int, float]] = _REPORTED["seconds"]
"""Seconds of an epoch with ResNet-50 on one RTX 3090."""
