"""The experiments, one file a table or figure; nothing in the library needs them. Each runs on one thread a process."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # libraries read it when they are loaded
