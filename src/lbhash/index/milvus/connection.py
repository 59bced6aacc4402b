"""Connect to Milvus, and read the index settings from a collection's description."""

from __future__ import annotations

import errno
import json
import logging
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lbhash.codes import code_bytes
from lbhash.index.base import OptionRanges
from lbhash.index.milvus.address import Address
from lbhash.index.milvus.fields import FIELD
from lbhash.utils.serialization import read_versioned

CONNECT_SECONDS = 5
START_SECONDS = 20
"""Seconds until Milvus Lite, which this process starts, must accept connections."""
SECONDS = 30
"""Seconds that Milvus may take to answer a request."""

KINDS: dict[str, tuple[str, OptionRanges]] = {
    "flat": ("BIN_FLAT", {}),
    "ivf": ("BIN_IVF_FLAT", {"nlist": (1024, 1), "nprobe": (16, 1)}),
}
"""Our kinds of index, each with Milvus's name and the options."""

_FORMAT, _VERSION = "lbhash index", 2


@contextmanager
def connection_errors(address: Address) -> Iterator[None]:
    """Turn errors of Milvus and its client into a one-line ``ConnectionError`` without the token."""
    import grpc
    from pymilvus.exceptions import MilvusException

    try:
        yield
    except (MilvusException, grpc.RpcError, grpc.FutureTimeoutError) as error:
        message = getattr(error, "message", "") or str(getattr(error, "details", lambda: "")() or "it does not answer")
        line = " ".join(str(message).split()).removesuffix(": ")
        if address.token:
            line = line.replace(address.token, "…")
        raise ConnectionError(errno.EIO, f"Milvus says: {line}", address.shown) from None


def connect(address: Address) -> Any:
    """Return a ``MilvusClient`` of a server or of Milvus Lite, which then runs until the program ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Milvus Lite imports deprecated parts of setuptools
        try:
            import pymilvus

            if address.file is not None:
                import milvus_lite  # noqa: F401
        except ImportError as error:
            needs = f"{error.name or 'pymilvus'}: pip install 'lbhash[milvus]'"
            raise ValueError(f"path is {address.shown!r}, which needs {needs}") from None
        # pymilvus logs a traceback for every error, and Milvus Lite logs to the root.
        logging.getLogger("pymilvus").setLevel(logging.CRITICAL + 1)
        root, nothing = logging.getLogger(), lambda record: False
        root.addFilter(nothing)
        until = time.monotonic() + START_SECONDS
        try:
            with connection_errors(address):
                while True:  # the client waits half a second for Milvus Lite: too short on a busy machine
                    try:
                        return pymilvus.MilvusClient(address.uri, token=address.token, timeout=CONNECT_SECONDS)
                    except pymilvus.MilvusException as error:
                        starting = address.file is not None and error.code == pymilvus.Status.CONNECT_FAILED
                        if not starting or time.monotonic() > until:
                            raise
                        time.sleep(0.2)
        finally:
            root.removeFilter(nothing)


def create_collection(client: Any, address: Address, settings: Mapping[str, Any]) -> None:
    """Create an empty collection whose description holds the index settings (bits, model, kind, options)."""
    from pymilvus import DataType

    description = json.dumps({"format": _FORMAT, "version": _VERSION, **settings})
    lists = {name: value for name, value in settings["options"].items() if name == "nlist"}
    with connection_errors(address):
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False, description=description)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("code", DataType.BINARY_VECTOR, dim=8 * code_bytes(settings["bits"]))
        schema.add_field(FIELD, DataType.JSON)
        index = client.prepare_index_params()
        index.add_index("code", index_type=KINDS[settings["kind"]][0], metric_type="HAMMING", params=lists)
        # Strong: a search that starts after a change has returned sees the change.
        client.create_collection(
            address.collection, schema=schema, index_params=index, consistency_level="Strong", timeout=SECONDS
        )


def read_settings(client: Any, address: Address) -> dict[str, Any] | None:
    """Return the settings that ``create_collection`` wrote; None if there is no such collection."""
    with connection_errors(address):
        if not client.has_collection(address.collection, timeout=SECONDS):
            return None
        found = client.describe_collection(address.collection, timeout=SECONDS)
    advice = "build the index in another collection"
    described, source = found.get("description", ""), f"path is {address.shown!r}"
    settings = read_versioned(described, _FORMAT, _VERSION, source, advice)
    if settings is None:
        raise ValueError(f"{source}, a collection that holds no index of lbhash")
    return settings
