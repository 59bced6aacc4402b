"""The fixtures that the tests of the service share."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from importlib.resources import files

import pytest

from lbhash import TrainingArguments
from lbhash.hasher import encode_split, fit_split


@pytest.fixture(scope="session")
def digits_service(tmp_path_factory):
    """The settings of a service over scikit-learn's digits."""
    from lbhash import Hasher
    from lbhash.codes.io import CodeTable
    from lbhash.data import load_dataset
    from lbhash.index.factory import build_index
    from lbhash.service import Settings

    folder = tmp_path_factory.mktemp("service")
    dataset = load_dataset("digits")
    hasher = fit_split(
        Hasher(16, epochs=2, training=TrainingArguments(hidden=32, batch_size=16, dropout=0.2)), dataset.train, 10
    )
    hasher.model_.metadata |= {"data": "digits", "protocol": "digits", "split_seed": 0}
    hasher.save_pretrained(folder / "model")
    codes = encode_split(hasher, dataset.base)
    table = CodeTable(codes, 16, dataset.base.rows, dataset.base.labels, hasher.model_.fingerprint())
    build_index(table, folder / "index")
    return Settings(folder / "model", folder / "index", "digits", concurrency=2)


@pytest.fixture(scope="session")
def client(digits_service):
    """A client of a service in this process, which no test changes."""
    from fastapi.testclient import TestClient

    from lbhash.service import create_app

    with TestClient(create_app(digits_service), base_url="http://127.0.0.1") as client:
        yield client


@pytest.fixture
def quiet(monkeypatch):
    """No service computes numbers and map beside the requests, which takes a child process and seconds."""
    from lbhash.service.background import Background

    async def nothing(self):
        pass

    monkeypatch.setattr(Background, "run", nothing)


@contextlib.contextmanager
def running(app, places=64, port=0, force=False):
    """A real server of an application in a thread, and its port; with ``force`` it ends without its requests."""
    from lbhash.service.connections import make_server
    from lbhash.service.server import listen

    with listen("127.0.0.1", port) as listening:
        server = make_server(app, places)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.01)
            yield server, listening.getsockname()[1]
        finally:
            server.force_exit, server.should_exit = force, True
            thread.join()


@pytest.fixture(scope="session")
def serving():
    """A context manager: a real server of these settings in a thread, and its address."""
    from lbhash.service import create_app

    @contextlib.contextmanager
    def run(settings, port=0):
        with running(create_app(settings), port=port) as (_, port):
            yield f"http://127.0.0.1:{port}"

    return run


@pytest.fixture(scope="module")
def browser():
    """A real browser without a window."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("needs Chromium and its chromedriver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driven = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    driven.set_window_size(1300, 900)
    yield driven
    driven.quit()


def until(browser, code, *arguments, seconds=60):
    """What the JavaScript is, once it is true."""
    ended = time.monotonic() + seconds
    while not (value := browser.execute_script(f"return {code}", *arguments)):
        shown = browser.execute_script("return document.body.innerText")
        assert time.monotonic() < ended, f"never true: {code}; {shown[:500]}"
        time.sleep(0.03)
    return value


def barriers(browser):
    """What axe finds on a page that is serious for people who do not see it, or not use a mouse."""
    browser.execute_script(files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    run = """const done = arguments[arguments.length - 1];
        axe.run({rules: {"label-content-name-mismatch": {enabled: true}}}).then((found) => done(
            found.violations.map((one) => [one.impact, one.id, one.nodes[0].html])))"""
    return [one for one in browser.execute_async_script(run) if one[0] in ("serious", "critical")]
