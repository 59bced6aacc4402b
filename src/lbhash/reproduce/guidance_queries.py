"""The paper's guidance with arranged centers compared with the same without, on the data's own queries."""

from __future__ import annotations

from functools import partial

from lbhash.reproduce import guidance

configs = partial(guidance.configs, validation=False)
run = partial(guidance.run, validation=False)
