"""What the routes work with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbhash.app.admission import Admission
    from lbhash.app.background import Background
    from lbhash.app.engine import Engine
    from lbhash.app.monitor import Monitor
    from lbhash.app.settings import Settings


@dataclass(frozen=True)
class Service:
    """The parts of a running service."""

    settings: Settings
    engine: Engine
    admission: Admission
    background: Background
    monitor: Monitor
