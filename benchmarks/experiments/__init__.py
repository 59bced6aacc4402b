"""The experiments, one file a table or figure; nothing in the library needs them. Each runs on one thread a process."""

import os

for _name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):  # libraries read them when they are loaded
    os.environ.setdefault(_name, "1")
