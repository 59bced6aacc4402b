"""HTML pages from Jinja templates: a package's own in its folder ``templates``, and ``page.html``, which all share."""

from __future__ import annotations

import base64
from typing import Any

from lbhash.utils.version import __version__


def render(package: str, template: str, **values: Any) -> str:
    """Render a template of a package, such as ``lbhash.cli``; all values are escaped.

    The template may extend or include those of ``lbhash.utils``, and it knows the library's ``version``.
    """
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("lbhash.utils")]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    return environment.get_template(template).render(version=__version__, **values)


def png_url(image: bytes) -> str:
    """Return a PNG image as a URL that holds it, so that a page is one file."""
    return "data:image/png;base64," + base64.b64encode(image).decode()
