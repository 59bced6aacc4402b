"""What the routes work with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lbhash.service.admission import Admission
    from lbhash.service.background import Background
    from lbhash.service.engine import Engine
    from lbhash.service.prometheus import Monitor
    from lbhash.service.settings import Settings


@dataclass(frozen=True)
class Service:
    """The parts of a running service."""

    settings: Settings
    engine: Engine
    admission: Admission
    background: Background
    monitor: Monitor
