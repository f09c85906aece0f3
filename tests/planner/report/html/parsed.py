"""A page read back by the standard library's parser, which knows nothing of how it was made."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

EMPTY = {"meta", "br", "rect", "line", "path", "circle"}


@dataclass
class Node:
    """An element with its attributes, its text and what is in it."""

    name: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Node | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text in it."""
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def all(self, name: str, class_: str = "") -> list[Node]:
        """Elements of a name in it, at any depth."""
        found = []
        for child in self.children:
            if isinstance(child, Node):
                is_it = child.name == name and (not class_ or class_ in child.attributes.get("class", "").split())
                found += [child] if is_it else []
                found += child.all(name, class_)
        return found

    def section(self, title: str) -> Node:
        """The part of a page under a heading."""
        return next(each for each in self.all("section") if each.all("h2")[0].text == title)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Node("")
        self.open = [self.root]

    def handle_starttag(self, tag, attrs):
        node = Node(tag, dict(attrs))
        self.open[-1].children.append(node)
        if tag not in EMPTY or tag == "rect":
            self.open.append(node)

    def handle_startendtag(self, tag, attrs):
        self.open[-1].children.append(Node(tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop().name == tag, tag

    def handle_data(self, data):
        self.open[-1].children.append(data)


def parsed(text: str) -> Node:
    """The page; `AssertionError` where an element is not closed where it should be."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader.open == [reader.root]
    return reader.root
