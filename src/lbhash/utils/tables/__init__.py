"""Read any table as an Arrow schema and batches, with bounded memory.

CSV cells stay text, except in columns requested as numbers, and repeated texts stay dictionaries, so that no file takes
much more memory than it stores. Errors are one line (``lbhash.utils.reading``).
"""

from lbhash.utils.tables.opening import open_table
from lbhash.utils.tables.source import Source, check_once
from lbhash.utils.tables.text_files import MISSING

__all__ = ["MISSING", "Source", "check_once", "open_table"]
