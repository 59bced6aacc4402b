from __future__ import annotations

import io
import shutil
import time
from dataclasses import replace

import httpx
import numpy as np
import pytest
from PIL import Image

from lbhash.data import load_table

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")

pytest_plugins = ["app_service"]
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs Chromium and its chromedriver")


@pytest.fixture(scope="module")
def address(digits_service, serving):
    with serving(digits_service) as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_window_size(1300, 900)
    yield driver
    driver.quit()


@pytest.fixture
def page(browser, address):
    """The page, freshly opened; what it wrote to the console fails the test."""
    browser.get("about:blank")
    browser.get(address)
    until(browser, "document.getElementById('facts').innerText")  # before that, the page cannot search
    yield browser
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def script(page, code, *arguments):
    return page.execute_script(f"return {code}", *arguments)


def until(page, code, *arguments, seconds=20):
    """What the JavaScript is, once it is true."""
    ended = time.monotonic() + seconds
    while not (value := script(page, code, *arguments)):
        assert time.monotonic() < ended, f"never true: {code}; {script(page, 'document.body.innerText')[:500]}"
        time.sleep(0.03)
    return value


def element(page, name):
    from selenium.webdriver.common.by import By

    return page.find_element(By.ID, name)


def press(page, *keys):
    from selenium.webdriver import ActionChains

    ActionChains(page).send_keys(*keys).perform()


def cards(page):
    """The text of every card, a list of its lines."""
    return script(page, "[...document.querySelectorAll('.card')].map((card) => card.innerText.split('\\n'))")


def test_search_by_row(page, address):
    until(page, "document.querySelectorAll('.samples img').length")
    assert "1,597 codes of 16 bits" in element(page, "facts").text
    element(page, "row").send_keys("1790\n")
    until(page, "document.querySelectorAll('.card').length == 12")
    wanted = httpx.post(f"{address}/search", json={"row": 1790, "k": 12}).json()
    for lines, neighbor in zip(cards(page), wanted["neighbors"], strict=True):
        assert lines[0] == f"{neighbor['distance']} bit{'s' * (neighbor['distance'] != 1)}"
        assert lines[1] == str(neighbor["label"])
        assert lines[2] == f"row {neighbor['row']}"
        assert ("other class" in lines) == (neighbor["label"] != wanted["query"]["label"])
    assert "12 neighbors in" in element(page, "status").text
    assert element(page, "asked-code").text == wanted["query"]["code"]
    assert page.current_url.endswith("#row=1790")
    assert until(page, "[...document.querySelectorAll('.card img')].every((image) => image.naturalWidth == 8)")


def test_the_bits_that_differ_are_highlighted(page, address):
    element(page, "row").send_keys("1790\n")
    script(
        page,
        "(document.getElementById('k').value = 60, document.getElementById('k').dispatchEvent(new Event('input')))",
    )
    until(page, "document.querySelectorAll('.card').length == 60")
    shown = script(
        page,
        "[...document.querySelectorAll('.card .bits')].map((bits) => ["
        "...['one', 'zero', 'differs-one', 'differs-zero'].map((kind) => "
        "(bits.querySelector('.' + kind)?.getAttribute('d').match(/M/g) ?? []).length)])",
    )
    found = httpx.post(f"{address}/search", json={"row": 1790, "k": 60}).json()
    query = int.from_bytes(bytes.fromhex(found["query"]["code"]), "little")
    for counts, neighbor in zip(shown, found["neighbors"], strict=True):
        code = int.from_bytes(bytes.fromhex(neighbor["code"]), "little")
        bits = [((code >> bit) & 1, (query >> bit) & 1) for bit in range(16)]
        assert counts == [bits.count(pair) for pair in ((1, 1), (0, 0), (1, 0), (0, 1))]


def test_upload_an_image(page, tmp_path):
    pixels = np.rint(load_table("digits").embeddings[3].reshape(8, 8) * (255 / 16)).astype(np.uint8)
    Image.fromarray(np.kron(pixels, np.ones((20, 20), np.uint8))).save(tmp_path / "three.png")
    until(page, "!document.getElementById('drop').hidden")
    element(page, "file").send_keys(str(tmp_path / "three.png"))
    until(page, "document.querySelectorAll('.card').length")
    assert element(page, "asked-name").text == "Your image"
    by_upload = cards(page)
    element(page, "row").send_keys("3\n")
    until(page, "document.getElementById('asked-name').innerText == 'Row 3'")
    assert [lines[:3] for lines in cards(page)] == [lines[:3] for lines in by_upload]


def test_a_file_that_is_not_an_image_is_reported(page, tmp_path):
    (tmp_path / "text.png").write_text("not an image")
    until(page, "!document.getElementById('drop').hidden")
    element(page, "file").send_keys(str(tmp_path / "text.png"))
    until(page, "!document.getElementById('alert').hidden")
    assert "must be an image" in element(page, "alert-text").text
    assert cards(page) == []
    element(page, "row").send_keys("1\n")
    until(page, "document.querySelectorAll('.card').length && document.getElementById('alert').hidden")
    assert [entry for entry in page.get_log("browser") if "422" not in entry["message"]] == []


def test_by_keyboard_alone(page):
    from selenium.webdriver.common.keys import Keys

    until(page, "document.getElementById('map-status').innerText.includes('codes')")
    until(page, "document.querySelectorAll('.samples button').length")
    order = []
    for _ in range(12):
        press(page, Keys.TAB)
        order.append(script(page, "document.activeElement.id"))
        assert script(page, "getComputedStyle(document.activeElement).outlineStyle != 'none' ||"
                      "document.activeElement.id == 'file'")  # fmt: skip
    assert [name for name in order if name] == ["theme", "file", "row", "random", "k", "radius"]
    script(page, "document.getElementById('map').focus()")
    press(page, Keys.ARROW_RIGHT)
    press(page, Keys.ARROW_RIGHT)
    said = until(page, "document.getElementById('map-says').innerText")
    assert said.startswith("row ")
    row = said.split(",")[0].removeprefix("row ")
    press(page, Keys.ENTER)
    until(page, "document.getElementById('asked-name').innerText == arguments[0]", f"Row {row}")
    script(page, "document.querySelectorAll('.card')[4].focus()")
    label = script(page, "document.activeElement.getAttribute('aria-label')")
    assert label.endswith("search with it")
    press(page, Keys.ENTER)
    until(page, "document.getElementById('asked-name').innerText == arguments[0]", f"R{label.split(',')[0][1:]}")
    page.back()
    until(page, "document.getElementById('asked-name').innerText != arguments[0]", f"R{label.split(',')[0][1:]}")


def test_a_radius_that_holds_nothing(page, address):
    codes = [httpx.post(f"{address}/search", json={"row": row, "k": 1}).json() for row in range(1500, 1797)]
    lonely = next(one["query"]["row"] for one in codes if one["neighbors"][0]["distance"] > 0)
    script(page, "(document.getElementById('radius').value = 0, true)")
    element(page, "row").send_keys(f"{lonely}\n")
    until(page, "document.getElementById('empty-words').innerText.startsWith('No code is within 0 bits')")
    assert cards(page) == []
    assert "0 neighbors" in element(page, "status").text


def test_numbers_and_map(page):
    until(page, "document.getElementById('numbers-status').innerText.includes('queries')", seconds=60)
    assert script(page, "document.querySelectorAll('#classes tbody tr').length") == 10
    assert "mAP" in element(page, "tiles").text
    assert script(page, "document.querySelectorAll('#legend button').length") == 10
    until(page, "document.getElementById('map-status').innerText.includes('1,597 codes')")
    drawn = "[...document.getElementById('map').getContext('2d').getImageData(0, 0, 600, 400).data].some((v) => v)"
    assert script(page, drawn)


@pytest.mark.parametrize("width", [360, 768, 1300, 1900])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_is_wider_than_the_screen(page, width, theme):
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        ground = script(page, "getComputedStyle(document.body).backgroundColor")
        if theme == "dark":
            element(page, "theme").click()
            assert script(page, "getComputedStyle(document.body).backgroundColor") != ground
        element(page, "row").send_keys("1790\n")
        until(page, "document.querySelectorAll('.card').length == 12")
        assert script(page, "document.documentElement.scrollWidth") <= width
    finally:
        script(page, "(localStorage.clear(), true)")
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_the_token_is_asked_for(browser, digits_service, serving):
    with serving(replace(digits_service, token="s3cret")) as address:
        browser.get(f"{address}/#row=1790")
        until(browser, "document.getElementById('door').open")
        element(browser, "token").send_keys("wrong\n")
        until(browser, "document.getElementById('door-why').innerText.includes('token is wrong')")
        until(browser, "document.getElementById('door').open")
        element(browser, "token").send_keys("s3cret\n")
        until(browser, "document.querySelectorAll('.card').length == 12")
        assert until(browser, "[...document.querySelectorAll('.card img')].every((image) => image.naturalWidth == 8)")
        assert script(browser, "document.querySelector('.card img').src.startsWith('blob:')")
        browser.refresh()
        until(browser, "document.querySelectorAll('.card').length == 12")
        assert "s3cret" not in browser.current_url
        script(browser, "(sessionStorage.clear(), true)")
    browser.get_log("browser")


def test_a_server_that_goes_away_and_comes_back(browser, digits_service, serving):
    with serving(digits_service) as address:
        browser.get(address)
        until(browser, "document.querySelectorAll('.samples button').length")
    port = int(address.rpartition(":")[2])
    element(browser, "row").send_keys("1790\n")
    until(browser, "!document.getElementById('alert').hidden")
    assert "does not answer" in element(browser, "alert-text").text
    with serving(digits_service, port):
        element(browser, "alert-again").click()
        until(browser, "document.querySelectorAll('.card').length == 12")
        until(browser, "document.getElementById('alert').hidden")
    browser.get("about:blank")
    browser.get_log("browser")


def test_too_large_and_too_busy(browser, digits_service, serving, tmp_path):
    noise = np.random.default_rng(0).integers(0, 255, (90, 90, 3), np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).save(file, "PNG")
    (tmp_path / "large.png").write_bytes(file.getvalue())
    with serving(replace(digits_service, max_body=5000)) as address:
        browser.get(address)
        until(browser, "!document.getElementById('drop').hidden")
        element(browser, "file").send_keys(str(tmp_path / "large.png"))
        until(browser, "document.getElementById('alert-text').innerText.includes('too large')")
        busy = 'fetch = () => Promise.resolve(new Response(\'{"detail": "busy"}\', {status: 503}))'
        script(browser, f"({busy}, true)")
        element(browser, "row").send_keys("1790\n")
        until(browser, "document.getElementById('alert-text').innerText.includes('busy')")
        assert element(browser, "alert-again").is_displayed()
    browser.get("about:blank")
    browser.get_log("browser")
