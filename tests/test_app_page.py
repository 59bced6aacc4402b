from __future__ import annotations

import json
import shutil
from contextlib import contextmanager
from dataclasses import replace
from urllib.parse import parse_qs, urlencode

import httpx
import numpy as np
import pytest
from PIL import Image

from app_answers import only, search
from app_service import barriers, until
from lbhash.codes.io import CodeTable
from lbhash.data import load_table
from lbhash.index import Index
from lbhash.index.factory import build_index
from lbhash.service import Settings

pytestmark = pytest.mark.end_to_end


@pytest.fixture(scope="module")
def address(digits_service, serving):
    with serving(digits_service) as address:
        yield address


@pytest.fixture
def page(browser, address):
    """The page, freshly opened; what it wrote to the console fails the test."""
    browser.get("about:blank")
    browser.get(address)
    until(browser, "document.getElementById('facts').innerText")  # before that, the page cannot search
    yield browser
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


@contextmanager
def screen(page, width, height=844):
    """A screen of this size, a phone's if it is narrow."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        yield
    finally:
        page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def script(page, code, *arguments):
    return page.execute_script(f"return {code}", *arguments)


def element(page, name):
    from selenium.webdriver.common.by import By

    return page.find_element(By.ID, name)


def press(page, *keys):
    from selenium.webdriver import ActionChains

    ActionChains(page).send_keys(*keys).perform()


def choose(page, name, value):
    """Give a control of the page a value, as a user does."""
    script(
        page,
        "((control) => { control.value = arguments[1]; control.dispatchEvent(new Event('input'));"
        "control.dispatchEvent(new Event('change')); return true; })(document.getElementById(arguments[0]))",
        name,
        value,
    )


def cards(page):
    """The text of every card, a list of its lines."""
    return script(page, "[...document.querySelectorAll('.card')].map((card) => card.innerText.split('\\n'))")


def test_search_by_row(page, address):
    until(page, "document.querySelectorAll('.samples img').length")
    assert "1,597 codes of 16 bits" in element(page, "facts").text
    element(page, "item").send_keys("100\n")
    until(page, "document.querySelectorAll('.card').length == 12")
    wanted = only(search(httpx.Client(base_url=address), item=100, k=12))
    for lines, neighbor in zip(cards(page), wanted["neighbors"], strict=True):
        assert lines[0] == f"{neighbor['hamming']} bit{'s' * (neighbor['hamming'] != 1)}"
        assert lines[1] == str(neighbor["label"])
        assert lines[2] == f"id {neighbor['id']}"
        assert ("other class" in lines) == (neighbor["label"] != wanted["query"]["label"])
    assert "12 neighbors in" in element(page, "status").text
    assert element(page, "asked-code").text == wanted["query"]["code"]
    assert page.current_url.endswith("#id=100&k=12")
    assert until(page, "[...document.querySelectorAll('.card img')].every((image) => image.naturalWidth == 8)")


def test_the_bits_that_differ_are_highlighted(page, address):
    element(page, "item").send_keys("100\n")
    choose(page, "k", 60)
    until(page, "document.querySelectorAll('.card').length == 60")
    shown = script(
        page,
        "[...document.querySelectorAll('.card .bits')].map((bits) => ["
        "...['one', 'zero', 'differs-one', 'differs-zero'].map((kind) => "
        "(bits.querySelector('.' + kind)?.getAttribute('d').match(/M/g) ?? []).length)])",
    )
    found = only(search(httpx.Client(base_url=address), item=100, k=60))
    query = int.from_bytes(bytes.fromhex(found["query"]["code"]), "big")
    for counts, neighbor in zip(shown, found["neighbors"], strict=True):
        code = int.from_bytes(bytes.fromhex(neighbor["code"]), "big")
        bits = [((code >> bit) & 1, (query >> bit) & 1) for bit in range(16)]
        assert counts == [bits.count(pair) for pair in ((1, 1), (0, 0), (1, 0), (0, 1))]


def test_upload_an_image(page, address, tmp_path):
    pixels = np.rint(load_table("digits").embeddings[3].reshape(8, 8) * (255 / 16)).astype(np.uint8)
    Image.fromarray(np.kron(pixels, np.ones((20, 20), np.uint8))).save(tmp_path / "three.png")
    until(page, "!document.getElementById('drop').hidden")
    element(page, "file").send_keys(str(tmp_path / "three.png"))
    until(page, "document.querySelectorAll('.card').length")
    assert element(page, "asked-name").text == "Your image"
    by_upload = cards(page)
    element(page, "item").send_keys("3\n")
    until(page, "document.getElementById('asked-name').innerText == 'Id 3'")
    assert [lines[:3] for lines in cards(page)] == [lines[:3] for lines in by_upload]
    found = only(search(httpx.Client(base_url=address), item=3, k=12))["query"]
    assert found["doubt"] < 0.99
    assert element(page, "doubt").text == f"Less like the data than {int(100 * found['doubt'])} % of its rows."
    unsure = len(found["unsure"])
    assert script(page, "document.querySelector('#asked .unsure')?.getAttribute('d').match(/M/g).length ?? 0") == unsure
    assert element(page, "asked-unsure").text.startswith(f"{unsure} of 16 bits" if unsure else "")


def test_a_file_that_is_not_an_image_is_reported_and_forgotten(page, tmp_path):
    (tmp_path / "text.png").write_text("not an image")
    until(page, "!document.getElementById('drop').hidden")
    element(page, "file").send_keys(str(tmp_path / "text.png"))
    until(page, "!document.getElementById('alert').hidden")
    assert "must be an image" in element(page, "alert-text").text
    assert cards(page) == []
    element(page, "item").send_keys("1\n")
    until(page, "document.querySelectorAll('.card').length && document.getElementById('alert').hidden")
    element(page, "file").send_keys(str(tmp_path / "text.png"))
    until(page, "document.querySelector('.old .card') && !document.getElementById('alert').hidden")
    choose(page, "k", 5)
    until(page, "document.querySelectorAll('.card').length == 5 && document.getElementById('alert').hidden")
    assert not script(page, "document.querySelector('.old, #preview img')")
    assert [entry for entry in page.get_log("browser") if "422" not in entry["message"]] == []


def test_by_keyboard_alone(page):
    from selenium.webdriver.common.keys import Keys

    until(page, "document.getElementById('map-status').innerText.includes('codes')")
    until(page, "document.querySelectorAll('.samples button').length")
    order = []
    for _ in range(13 + 3):
        press(page, Keys.TAB)
        order.append(script(page, "document.activeElement.id"))
        assert script(page, "getComputedStyle(document.activeElement).outlineStyle != 'none' ||"
                      "document.activeElement.id == 'file'")  # fmt: skip
    controls = ["theme", "file", "item", "random", "k", "radius", "column", "value", "ranking"]
    assert [name for name in order if name] == controls
    script(page, "document.querySelector('.samples button').focus()")
    press(page, Keys.ENTER)
    until(page, "document.querySelectorAll('.card').length && document.activeElement.id == 'neighbors'")
    script(page, "document.getElementById('map').focus()")
    press(page, Keys.ARROW_RIGHT)
    press(page, Keys.ARROW_RIGHT)
    said = until(page, "document.getElementById('map-says').innerText")
    assert said.startswith("id ")
    name = said.split(",")[0].removeprefix("id ")
    press(page, Keys.ENTER)
    until(page, "document.getElementById('asked-name').innerText == arguments[0]", f"Id {name}")
    script(page, "document.querySelectorAll('.card')[4].focus()")
    title = script(page, "document.activeElement.title")
    assert title.startswith("Search with id ")
    followed = f"Id {title.split()[-1]}"
    press(page, Keys.ENTER)
    until(page, "document.getElementById('asked-name').innerText == arguments[0]", followed)
    page.back()
    until(page, "document.getElementById('asked-name').innerText != arguments[0]", followed)


def test_numbers_and_map(page):
    until(page, "document.getElementById('numbers-status').innerText.includes('queries')", seconds=60)
    assert script(page, "document.querySelectorAll('#classes tbody tr').length") == 10
    assert "mAP" in element(page, "tiles").text
    assert script(page, "document.querySelectorAll('#legend button').length") == 10
    until(page, "document.getElementById('map-status').innerText.includes('1,597 codes')")
    helped = "[...document.querySelectorAll('#classes [title]:not(.chip), .tile[title]')].map((one) => one.innerText)"
    assert [name.split("\n")[0] for name in script(page, helped)] == [
        *("mAP", "Macro mAP", "Ratio", "Ratio at 99.9 %", "k-NN", "Precision within 2 bits"),
        *("mAP", "Dinter", "Dintra", "mean"),
    ]
    element(page, "item").send_keys("100\n")
    until(
        page,
        "document.querySelector('.card .bits')?.title.includes('differs')"
        " && document.querySelector('#asked .bits').title",
    )
    drawn = "[...document.getElementById('map').getContext('2d').getImageData(0, 0, 600, 400).data].some((v) => v)"
    assert script(page, drawn)


@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), (768, "light"), (1440, "light")])
def test_axe_finds_nothing_serious_and_all_fits_the_screen(page, width, theme):
    """Before a search, with its results, and when the server is gone."""
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})
    with screen(page, width, 900):
        for state in ("start", "results", "error"):
            if state == "results":
                element(page, "item").send_keys("100\n")
                until(page, "document.querySelectorAll('.card').length == 12")
            elif state == "error":
                page.execute_script("window.fetch = () => Promise.reject(new TypeError('gone'))")
                page.execute_script("document.querySelectorAll('.card')[2].click()")
                until(page, "document.querySelector('[role=alert]').innerText")
            assert script(page, "document.documentElement.scrollWidth") <= width
            assert barriers(page) == [], state


def test_on_a_phone(page, address):
    page.get("about:blank")
    with screen(page, 390):
        page.get(f"{address}#id=100")
        until(page, "document.querySelectorAll('.card').length == 12")
        until(
            page, "document.querySelector('#classes tbody tr') && document.querySelector('#legend button')", seconds=60
        )
        top = "document.querySelector(arguments[0]).getBoundingClientRect().top + scrollY"
        tops = [script(page, top, name) for name in ("#query", ".card", "#asked", "#map", "#classes")]
        assert tops == sorted(tops)
        assert tops[1] < 500
        element(page, "options").click()
        small = (
            "[...document.querySelectorAll('button, input:not(.unseen), select, summary, .drop label')]"
            ".filter((one) => one.checkVisibility()).map((one) => one.getBoundingClientRect())"
            ".filter((box) => box.width < 44 || box.height < 44).length"
        )
        assert script(page, small) == 0
        assert script(
            page, "document.getElementById('classes').scrollWidth <= document.getElementById('classes').clientWidth"
        )
        script(
            page,
            "(window.fetch = () => Promise.reject(new TypeError('gone')),"
            "document.querySelectorAll('.card')[3].click(), scrollTo(0, 700), true)",
        )
        until(page, "!document.getElementById('alert').hidden && document.querySelectorAll('.old .card').length == 12")
        box = "document.getElementById('alert').getBoundingClientRect()"
        until(page, f"{box}.top >= 0 && {box}.bottom <= innerHeight")
        assert element(page, "status").text == "of the search before"


def test_the_token_is_asked_for(browser, digits_service, serving):
    with serving(replace(digits_service, read_token="s3cret")) as address:
        browser.get(f"{address}/#id=100")
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


@pytest.mark.parametrize(
    "ids", [[f"sku {row}, é" for row in range(40)], [2**62 + row for row in range(40)]], ids=["texts", "wide"]
)
def test_ids_that_people_have(browser, digits_service, serving, tmp_path, ids):
    from selenium.webdriver import Keys

    index = Index.open(digits_service.index, mode="a")
    table = CodeTable(index.codes_of(index.ids()[:40]), index.bits, np.arange(40), None, index.model)
    build_index(table, tmp_path / "i", ids=ids, metadata={})
    browser.get("about:blank")
    browser.get_log("browser")  # in which the page of a service that has ended misses it
    with serving(Settings(digits_service.model, tmp_path / "i")) as address:
        browser.get(address)
        until(browser, "document.getElementById('facts').innerText")
        element(browser, "item").send_keys(f"{ids[7]}\n")
        until(browser, "document.querySelectorAll('.card').length == 12")
        assert element(browser, "asked-name").text == f"Id {ids[7]}"
        shown = script(browser, "[...document.querySelectorAll('.row-of')].map((one) => one.textContent)")
        assert {name.removeprefix("id ") for name in shown} <= {str(name) for name in ids}
        assert parse_qs(browser.current_url.partition("#")[2])["id"] == [str(ids[7])]
        browser.find_elements("class name", "card")[3].click()
        until(browser, f"document.getElementById('asked-name').innerText == {json.dumps(shown[3].capitalize())}")
        browser.back()
        until(browser, f"document.getElementById('asked-name').innerText == {json.dumps(f'Id {ids[7]}')}")
        script(browser, "(document.getElementById('map').focus(), true)")
        press(browser, Keys.ARROW_RIGHT)
        said = until(browser, "document.getElementById('map-says').innerText")
        assert said.removeprefix("id ").split(", class")[0] in map(str, ids), said
        element(browser, "item").clear()
        element(browser, "item").send_keys("nothing\n")
        until(browser, "document.getElementById('alert-text').innerText.includes(\"request: the id is 'nothing'\")")
        browser.get("about:blank")
    severe = [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    assert [message for message in severe if "page/search" not in message] == []


def test_a_server_that_goes_away_and_comes_back(browser, digits_service, serving):
    with serving(digits_service) as address:
        browser.get(address)
        until(browser, "document.querySelectorAll('.samples button').length")
    port = int(address.rpartition(":")[2])
    element(browser, "item").send_keys("100\n")
    until(browser, "!document.getElementById('alert').hidden")
    assert "does not answer" in element(browser, "alert-text").text
    with serving(digits_service, port):
        element(browser, "alert-again").click()
        until(browser, "document.querySelectorAll('.card').length == 12")
        until(browser, "document.getElementById('alert').hidden")
    browser.get("about:blank")
    browser.get_log("browser")


@pytest.fixture(scope="module")
def sentences(tmp_path_factory, serving):
    """The address of a service over sentences, whose index has their text, the names of twelve topics, and numbers."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from lbhash import Hasher
    from lbhash.codes.io import CodeTable
    from lbhash.index.factory import build_index

    folder = tmp_path_factory.mktemp("sentences")
    rng = np.random.default_rng(0)
    topics = np.array([f"topic {name}" for name in "abcdefghijkl"])[np.arange(240) % 12]
    x = (rng.normal(size=(12, 20))[np.arange(240) % 12] + rng.normal(size=(240, 20)) / 3).astype(np.float32)
    text = [f"Sentence {row} is about {topic}, at some length." for row, topic in enumerate(topics)]
    data = {"embedding": list(x), "label": topics, "text": text, "words": np.arange(240) % 7}
    pq.write_table(pa.table(data), folder / "data.parquet")
    hasher = Hasher(16, method="itq").fit(x)
    hasher.save_pretrained(folder / "model")
    table = CodeTable(hasher.encode(x), 16, np.arange(240), model=hasher.model_.fingerprint())
    columns = {"row": np.arange(240)} | {name: data[name] for name in ("label", "text", "words")}
    build_index(table, folder / "index", metadata=columns, vectors=x, store="embeddings")
    with serving(Settings(folder / "model", folder / "index", folder / "data.parquet")) as address:
        yield address


def test_a_link_restores_a_filtered_search_among_sentences(browser, sentences):
    link = {"row": 7, "k": 5, "radius": 15, "column": "words", "value": "3", "rerank": "embeddings"}
    browser.get(f"{sentences}#{urlencode(link)}")
    until(browser, "document.querySelectorAll('.card').length == 5")
    client = httpx.Client(base_url=sentences)
    wanted = only(search(client, row=7, k=5, radius=15, where={"words": 3}, rerank="embeddings"))
    assert {one["metadata"]["words"] for one in wanted["neighbors"]} == {3}
    for lines, neighbor in zip(cards(browser), wanted["neighbors"], strict=True):
        assert lines[0] == neighbor["metadata"]["text"]
        assert lines[2:4] == [neighbor["label"], f"id {neighbor['id']} · words: 3"]
    assert element(browser, "asked-text").text == "Sentence 7 is about topic h, at some length."
    assert element(browser, "status").text.endswith(" ms where words is 3, ranked by stored embeddings")
    choose(browser, "k", 4)
    until(browser, "document.querySelectorAll('.card').length == 4")
    held = {name: values[0] for name, values in parse_qs(browser.current_url.partition("#")[2]).items()}
    assert held == {name: str(value) for name, value in {**link, "k": 4}.items()}
    choose(browser, "column", "label")
    choose(browser, "value", "topic c")
    until(browser, "[...document.querySelectorAll('.card .chip')].every((chip) => chip.innerText == 'topic c')")
    choose(browser, "column", "words")
    choose(browser, "value", "many")
    until(browser, "document.getElementById('alert-text').innerText.includes('the column holds int64')")
    assert script(browser, "document.querySelectorAll('.old .card').length") == 4
    browser.get_log("browser")


@pytest.mark.slow
def test_twelve_topics_are_told_apart(browser, sentences):
    browser.get("about:blank")
    browser.get(sentences)
    until(browser, "document.querySelectorAll('#legend button').length == 12")
    marks = script(
        browser,
        "[...document.querySelectorAll('#legend path')]"
        ".map((path) => ['d', 'fill', 'stroke'].map((name) => path.getAttribute(name)).join())",
    )
    assert len(set(marks)) == 12
    assert until(browser, "document.querySelectorAll('#names span').length") > 3
    with screen(browser, 390):
        until(browser, "document.querySelector('#classes tbody tr')", seconds=60)
        assert until(
            browser, "(({scrollWidth, clientWidth}) => scrollWidth <= clientWidth)(document.getElementById('classes'))"
        )


FIND = "[...document.querySelectorAll('details')].find((one) => one.querySelector('code').textContent === arguments[0])"


def try_out(browser, path, body=None):
    """Send the form of a route, and return what is shown of the request and the answer."""
    browser.execute_script(
        f"const one = {FIND}; one.open = true; one.querySelector('.result').replaceChildren();"
        "if (arguments[1]) one.querySelector('textarea').value = arguments[1]; one.querySelector('button').click()",
        path,
        body,
    )
    until(browser, f"{FIND}.querySelector('.result .told')", path)
    return browser.execute_script(f"return {FIND}.querySelector('.result').innerText", path)


def test_every_route_is_there_and_can_be_tried(browser, serving, digits_service):
    with serving(digits_service) as address:
        browser.get(f"{address}/docs")
        until(browser, "document.querySelector('details')")
        listed = browser.execute_script(
            "return [...document.querySelectorAll('summary code')].map((one) => one.innerText)"
        )
        assert {"/v1/search", "/v1/encode", "/v1/items/{id}/image", "/health", "/metrics"} <= set(listed)
        fields = browser.execute_script(f"return {FIND}.querySelector('table').textContent", "/v1/search")
        for part in ("queries[].embedding", "list of number or string in base64", "where", '"real"', "integer"):
            assert part in fields
        said = try_out(browser, "/v1/search", '{"queries": [{"id": 3}], "k": 2}')
        assert f"curl -X POST '{address}/v1/search'" in said
        assert "Status 200" in said
        assert '"rank": 2' in said
        assert '"rank": 3' not in said
        assert "Status 422" in try_out(browser, "/v1/search", '{"queries": [{"id": 3}], "kk": 2}')
        assert "Status 200" in try_out(browser, "/v1/items/{id}/image")
        assert browser.execute_script(
            f"return {FIND}.querySelector('.result img').naturalWidth", "/v1/items/{id}/image"
        )
        requested = browser.execute_script(
            "return performance.getEntries().map((one) => one.name).filter((one) => one.startsWith('http'))"
        )
        assert requested
        assert all(one.startswith(address) for one in requested)
        wrong = [one for one in browser.get_log("browser") if one["level"] == "SEVERE" and "422" not in one["message"]]
        assert wrong == []
        browser.set_window_size(500, 900)
        line = "parseFloat(getComputedStyle(document.querySelector('summary')).lineHeight)"
        assert browser.execute_script(f"return {line}") < 30  # a sentence has several lines there
        assert browser.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def test_it_asks_for_the_token_to_read_and_for_that_to_write(browser, serving, digits_service, tmp_path):
    def bring(token):
        until(browser, "!document.getElementById('access').hidden")
        browser.execute_script(
            f"document.getElementById('token').value = '{token}'; document.querySelector('#access button').click()"
        )

    index = shutil.copytree(digits_service.index, tmp_path / "i")
    settings = Settings(digits_service.model, index, read_token="s3cret-r", write_token="s3cret-w", writable=True)
    with serving(settings) as address:
        browser.get(f"{address}/docs")
        bring("s3cret-r")
        until(browser, "document.querySelector('details')")
        said = try_out(browser, "/v1/search", '{"queries": [{"id": 0}], "k": 2}')
        assert "Status 200" in said
        assert "s3cret" not in said
        assert "Status 401" in try_out(browser, "/v1/items/delete", '{"ids": [0]}')
        bring("s3cret-w")
        assert "Status 200" in try_out(browser, "/v1/items/delete", '{"ids": [0]}')
