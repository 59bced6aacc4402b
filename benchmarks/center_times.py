"""How long class centers take, without and with the cache, and how much memory.

    python -m benchmarks.center_times

makes each cell in a process of its own, with an empty cache, and again from the cache. The seconds are those of the
processor, as other programs on the machine do not change them much; importing is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile

CELLS = ("10x48", "100x48", "1000x48", "256x32", "150x24", "512x128", "1000x128", "10000x256", "32768x256", "40000x64")
_CODE = """
import json, sys, time
from lbhash.centers import design_centers
from lbhash.centers.design import _cached_centers
from lbhash.utils.system import peak_memory
classes, bits = map(int, sys.argv[1:])
seconds = []
for _ in range(2):
    _cached_centers.cache_clear()
    begun = time.process_time()
    _cached_centers("best", classes, bits)
    seconds.append(time.process_time() - begun)
made = design_centers(classes, bits)
megabytes = peak_memory() / 1024**2
print(json.dumps([made.minimum_distance, *seconds, megabytes]))
"""


def main() -> None:
    """Time all cells, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", nargs="*", default=CELLS, metavar="CLASSESxBITS")
    print("| classes | bits | distance | seconds | from the cache, ms | memory, MB |\n|--:|--:|--:|--:|--:|--:|")
    for cell in parser.parse_args().cells:
        distance, cold, warm, megabytes = measure(*cell.split("x"))
        sizes = " | ".join(f"{int(size):,}" for size in cell.split("x"))
        print(f"| {sizes} | {distance} | {cold:.2f} | {1000 * warm:.1f} | {megabytes:.0f} |", flush=True)


def measure(classes: str, bits: str) -> tuple[int, float, float, float]:
    """The distance, the seconds without and with the cache, and the megabytes of the process."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"LBHASH_CACHE": folder, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, "-c", _CODE, classes, bits], env=environment, check=True, capture_output=True, text=True
        )
    distance, cold, warm, megabytes = json.loads(done.stdout)
    return distance, cold, warm, megabytes


if __name__ == "__main__":
    main()
