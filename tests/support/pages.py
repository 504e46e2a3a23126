"""Requirements for every page and every image: no script, no external resources."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

SVG = "http://www.w3.org/2000/svg"
HOSTILE = "\"><img src=x onerror=alert(1)></svg><script>alert('2')</script>\u202egnp.\u2066 http://evil.example/&amp;\x1b[31m"
LONG = HOSTILE + "W" * 10_000


class _Reader(HTMLParser):
    VOID = frozenset({"meta", "br", "hr", "img", "link", "input"})

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.texts = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), (tag, name)
            assert name not in {"src", "href", "xlink:href", "action"}, (tag, name)
            if name not in {"xmlns", "aria-label", "title"}:
                assert "://" not in (value or ""), (tag, name, value)
            assert "javascript:" not in (value or "")

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            assert "url(" not in data
            assert "@import" not in data
        else:
            self.texts.append(data)


def read_page(html):
    """Check a page or a fragment; return its tags and its text."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert reader.open == []
    assert not set(reader.tags) & {
        "script",
        "img",
        "iframe",
        "object",
        "embed",
        "link",
        "a",
        "form",
    }
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00\x1b]", html)
    for drawn in re.findall(r"<svg.*?</svg>", html, re.DOTALL):
        read_svg(drawn)
    return reader.tags, "".join(reader.texts)


def read_svg(text):
    """Parse an SVG image, check it, and return its root."""
    root = ET.fromstring(text)
    assert root.tag == f"{{{SVG}}}svg"
    for element in root.iter():
        assert element.tag.removeprefix(f"{{{SVG}}}") in {
            "svg",
            "g",
            "path",
            "line",
            "defs",
            "linearGradient",
            "stop",
            "rect",
            "text",
            "title",
            "style",
        }
        assert not any(name.startswith("on") or "href" in name for name in element.attrib)
    return root


def shown(thing):
    """Check the HTML of an object, and return its text."""
    html = thing._repr_html_()
    assert len(html.encode()) < 50_000
    return read_page(html)[1]
