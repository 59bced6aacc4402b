"""The page that lists the routes, made from the schema, in a real browser."""

from __future__ import annotations

from app_service import until
from lbhash.service import Settings

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
        assert {"/v1/search", "/v1/encode", "/v1/row/{row}/image", "/health", "/metrics"} <= set(listed)
        fields = browser.execute_script(f"return {FIND}.querySelector('table').textContent", "/v1/search")
        for part in ("embeddings", "list of list of number or string in base64", "where", '"asymmetric"', "integer"):
            assert part in fields
        said = try_out(browser, "/v1/search", '{"row": 3, "k": 2}')
        assert f"curl -X POST '{address}/v1/search'" in said
        assert "Status 200" in said
        assert '"rank": 2' in said
        assert '"rank": 3' not in said
        assert "Status 422" in try_out(browser, "/v1/search", '{"row": 3, "kk": 2}')
        assert "Status 200" in try_out(browser, "/v1/row/{row}/image")
        assert browser.execute_script(f"return {FIND}.querySelector('.result img').naturalWidth", "/v1/row/{row}/image")
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


def test_it_asks_for_the_token(browser, serving, digits_service):
    with serving(Settings(digits_service.model, digits_service.index, token="s3cret")) as address:
        browser.get(f"{address}/docs")
        until(browser, "!document.getElementById('access').hidden")
        browser.execute_script(
            "document.getElementById('token').value = 's3cret'; document.querySelector('#access button').click()"
        )
        until(browser, "document.querySelector('details')")
        said = try_out(browser, "/v1/search", '{"id": 0, "k": 2}')
        assert "Status 200" in said
        assert "s3cret" not in said
