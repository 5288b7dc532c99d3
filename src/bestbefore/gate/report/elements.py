"""HTML, made of elements: what is text stays text, whatever is in it."""

from importlib.resources import files
from xml.etree.ElementTree import Element, tostring

from bestbefore.domain.printable import printable

Child = Element | str | None


def el(tag: str, *children: Child, **attributes: str) -> Element:
    """An element with *children* in order, without those that are None. A ``class`` is given as
    ``of``."""
    made = Element(tag, {"class" if name == "of" else name: v for name, v in attributes.items()})
    for child in children:
        if isinstance(child, str):
            _write(made, printable(child))
        elif child is not None:
            made.append(child)
    return made


def table(header: tuple[str, ...], *rows: Element, of: str) -> Element:
    """A table whose header comes again on every printed page."""
    head = el("tr", *(el("th", title, scope="col") for title in header))
    return el("table", el("thead", head), el("tbody", *rows), of=of)


def whole(title: str, *body: Element) -> str:
    """A page of its own: it asks for nothing from anywhere."""
    style = Element("style")
    style.text = files(__package__).joinpath("page.css").read_text(encoding="utf-8")
    root = el(
        "html",
        el(
            "head",
            el("meta", charset="utf-8"),
            el("meta", name="viewport", content="width=device-width, initial-scale=1"),
            el("meta", name="color-scheme", content="light dark"),
            el("title", title),
            style,
        ),
        el("body", *body),
        lang="en",
    )
    return f"<!doctype html>\n{tostring(root, encoding='unicode', method='html')}\n"


def _write(into: Element, text: str) -> None:
    if len(into):
        into[-1].tail = (into[-1].tail or "") + text
    else:
        into.text = (into.text or "") + text
