"""Read a built site as a browser would and say what is wrong: ``python docs/check_site.py dist/site``.

Every page has a language, a title, one main heading and no level left out; every picture has a text, every control and
link a name, every id is there once; and every link inside the site leads to a page, and to a place in it. What needs a
browser (contrast, focus, overflow) is looked at by ``nox -s accessibility``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Pages that the theme writes without an article.
_NO_ARTICLE = {"search.html", "genindex.html", "py-modindex.html"}
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
_NAMED = {"a", "button", "select", "textarea", "input", "summary"}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}


@dataclass
class _Open:
    """An element that is open, and the words heard in it."""

    tag: str
    attributes: dict[str, str | None]
    text: str = ""


@dataclass
class Page(HTMLParser):
    """What a check must know of a page.

    Attributes
    ----------
    wrong : list of str
        What is wrong in the page itself.
    ids : set of str
        Places that a link may lead to.
    links : list of str
        Where its links lead.
    """

    wrong: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    headings: list[tuple[int, str]] = field(default_factory=list)
    labelled: set[str] = field(default_factory=set)
    unnamed: list[tuple[str, str]] = field(default_factory=list)
    title: str = ""
    language: str | None = None
    _path: list[_Open] = field(default_factory=list)
    _article: int = 0

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element, and its place."""
        attributes = dict(attrs)
        self._identify(attributes)
        if tag == "html":
            self.language = attributes.get("lang")
        elif tag == "label" and attributes.get("for"):
            self.labelled.add(str(attributes["for"]))
        elif tag == "img":
            if "alt" not in attributes:
                self.wrong.append(f"the picture {attributes.get('src')} has no alt text")
            for element in self._path:
                element.text += attributes.get("alt") or ""
        elif tag == "a" and attributes.get("href"):
            self.links.append(str(attributes["href"]))
        self._article += tag == "article"
        if tag not in _VOID:
            self._path.append(_Open(tag, attributes))
        elif tag in _NAMED:
            self._name(_Open(tag, attributes))

    def handle_data(self, data: str) -> None:
        """Note words."""
        for element in self._path:
            element.text += data

    def handle_endtag(self, tag: str) -> None:
        """Look at an element that is complete."""
        if not any(element.tag == tag for element in self._path):
            return
        while self._path:
            element = self._path.pop()
            if element.tag in _HEADINGS and self._article:
                self.headings.append((_HEADINGS[element.tag], element.text.strip()))
            elif element.tag in _NAMED:
                self._name(element)
            elif element.tag == "title" and not self.title:
                self.title = element.text.strip()
            self._article -= element.tag == "article"
            if element.tag == tag:
                return

    def _identify(self, attributes: dict[str, str | None]) -> None:
        place = attributes.get("id")
        if place is None:
            return
        if place in self.ids:
            self.wrong.append(f"two elements have the id {place!r}")
        self.ids.add(place)

    def _name(self, element: _Open) -> None:
        """Note a control or link that has no name."""
        said = [element.attributes.get(key) for key in ("aria-label", "aria-labelledby", "title", "alt")]
        hidden = element.attributes.get("type") == "hidden" or element.attributes.get("aria-hidden") == "true"
        link_target = element.tag == "a" and not element.attributes.get("href")
        if any(said) or element.text.strip() or hidden or link_target:
            return
        self.unnamed.append((element.tag, element.attributes.get("id") or ""))

    def faults(self, name: str) -> list[str]:
        """Return what is wrong in the page itself."""
        told = list(self.wrong)
        told += [] if self.language else ["the page says no language"]
        told += [] if self.title else ["the page has no title"]
        for tag, place in self.unnamed:
            if tag != "summary" and place not in self.labelled:  # site.js names the arrows of the tree
                told.append(f"a <{tag}> has no name: {place or 'without an id'}")
        levels = [level for level, _ in self.headings]
        if name not in _NO_ARTICLE and levels.count(1) != 1:
            told.append(f"{levels.count(1)} main headings")
        for (before, _), (after, text) in zip(self.headings, self.headings[1:], strict=False):
            if after > before + 1:
                told.append(f"the heading {text!r} is of level {after}, under one of level {before}")
        return told


def read(folder: Path) -> dict[str, Page]:
    """Return the pages of a site by their path in it."""
    pages = {}
    for path in sorted(folder.rglob("*.html")):
        name = path.relative_to(folder).as_posix()
        if not name.startswith("_static/"):
            pages[name] = Page()
            pages[name].feed(path.read_text("utf-8"))
    return pages


def dead_links(folder: Path, pages: dict[str, Page]) -> list[str]:
    """Return the links that lead nowhere inside the site."""
    told = []
    for name, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or (link == "#"):
                continue
            home = (folder / name).parent
            target = (home / unquote(parts.path)).resolve() if parts.path else folder.resolve() / name
            if not target.is_file():
                told.append(f"{name}: the link {link} leads to no file")
                continue
            aim = pages.get(target.relative_to(folder.resolve()).as_posix())
            if parts.fragment and aim is not None and unquote(parts.fragment) not in aim.ids:
                told.append(f"{name}: the link {link} leads to no place of that page")
    return told


def faults(folder: Path) -> list[str]:
    """Return everything that is wrong with a site."""
    pages = read(folder)
    if not pages:
        return [f"{folder} has no pages: sphinx-build docs {folder} makes them"]
    told = [f"{name}: {fault}" for name, page in pages.items() for fault in page.faults(name)]
    return told + dead_links(folder, pages)


def main() -> int:
    """Print the faults of the site in the folder that is named; 1 if there are any."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "dist/site")
    told = faults(folder)
    sys.stdout.write("".join(f"{fault}\n" for fault in dict.fromkeys(told)))
    return bool(told)


if __name__ == "__main__":
    sys.exit(main())
