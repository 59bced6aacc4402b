"""Every example of docs/http.md is run against a real service."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "http.md"
BLOCKS = re.findall(r"^```(sh|python)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture
def writable(digits_service, tmp_path):
    return replace(digits_service, index=shutil.copytree(digits_service.index, tmp_path / "i"), writable=True)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_examples_run(serving, writable, tmp_path):
    assert len(BLOCKS) >= 6
    with serving(writable) as address:
        for language, block in BLOCKS:
            block = block.replace("http://127.0.0.1:8000", address)
            command = ["bash", "-euc"] if language == "sh" else [sys.executable, "-c"]
            done = subprocess.run(
                [*command, block],
                cwd=tmp_path,
                env={**os.environ, "LBHASH_TOKEN": "any"},
                capture_output=True,
                text=True,
                timeout=300,
            )
            assert (done.returncode, done.stderr) == (0, ""), block + done.stdout + done.stderr
            assert ("detail" in done.stdout) == ('"neighbors": 3' in block), block + done.stdout
            assert done.stdout


def test_it_names_every_route_and_field(serving, writable):
    import httpx

    told = PAGE.read_text()
    with serving(writable) as address:
        described = httpx.get(f"{address}/openapi.json").json()
    for path, operations in described["paths"].items():
        assert path.replace("{row}", "7") in told or path in ("/health", "/metrics", "/ready")
        for operation in operations.values():
            for status in operation["responses"]:
                assert status == "200" or f"| {status} |" in told, status
    for name in described["paths"]["/v1/search"]["post"]["requestBody"]["content"]["application/json"]["schema"][
        "properties"
    ]:
        assert f"`{name}`" in told
