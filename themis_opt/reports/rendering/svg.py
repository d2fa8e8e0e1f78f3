"""Pictures of Vega in a third of the bytes: places in tenths of a pixel, and nothing that says what holds anyway."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

SVG = "http://www.w3.org/2000/svg"
SILENT = {"aria-hidden", "aria-roledescription", "class", "font-family", "pointer-events", "role"}
DEFAULTS = {"opacity": "1", "stroke-width": "1", "font-weight": "normal", "x2": "0", "y2": "0"}
SVG_PLACES = {"d", "transform", "x", "y", "x2", "y2", "cx", "cy", "r", "width", "height"}
NOTHING_DRAWN = {"", "M0,0h0v0h0Z"}

_DECIMALS = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
_ONLY_LINES = re.compile(r"(?:[ML]-?[\d.]+,-?[\d.]+)+Z?")
_LINE = re.compile(r"([ML])([-\d.]+),([-\d.]+)")
_CIRCLE = re.compile(r"M([\d.]+),0A\1,\1,0,1,1,-\1,0A\1,\1,0,1,1,\1,0Z?")
_SHIFT = re.compile(r"translate\(([-\d.]+),([-\d.]+)\)")


def compact(text: str, font: str) -> str:
    """The same picture, with one font for all texts."""
    ElementTree.register_namespace("", SVG)
    root = ElementTree.fromstring(text)
    _shrink(root)
    root.set("font-family", font)
    return ElementTree.tostring(root, encoding="unicode").replace(" />", "/>")


def _shrink(element: Element) -> None:
    for name, value in list(element.attrib.items()):
        if name in SILENT or DEFAULTS.get(name) == value or (name, value) == ("transform", "translate(0,0)"):
            del element.attrib[name]
        elif name in SVG_PLACES:
            rounded = _DECIMALS.sub(lambda number: f"{round(float(number[0]), 1):g}", value)
            element.set(name, _path(rounded) if name == "d" else rounded)
    children = list(element)
    for child in children:
        _shrink(child)
    element[:] = _gathered([part for child in children for part in _parts(child)])


def _path(lines: str) -> str:
    """Lines with one number where they run along an axis, and none where they go nowhere."""
    if not _ONLY_LINES.fullmatch(lines):
        return lines
    parts, last = list[str](), ("", "")
    for letter, x, y in _LINE.findall(lines):
        if letter == "M" or (x != last[0] and y != last[1]):
            parts.append(f"{letter}{x},{y}")
        elif (x, y) != last:
            parts.append(f"H{x}" if y == last[1] else f"V{y}")
        last = x, y
    return "".join(parts) + "Z" * lines.endswith("Z")


def _parts(element: Element) -> list[Element]:
    """What stands in the place of an element: nothing if it draws nothing, its parts if it only holds them together."""
    tag, place = element.tag.removeprefix(f"{{{SVG}}}"), element.get("d")
    if tag == "path" and (place in NOTHING_DRAWN or element.get("display") == "none"):
        return []
    circle, shift = _CIRCLE.fullmatch(place or ""), _SHIFT.fullmatch(element.get("transform", ""))
    if circle and shift:
        looks = {name: value for name, value in element.attrib.items() if name not in ("d", "transform")}
        return [Element(f"{{{SVG}}}circle", {"cx": shift[1], "cy": shift[2], "r": circle[1]} | looks)]
    if tag == "g" and not element.attrib:
        return list(element)
    return [] if tag == "g" and not len(element) else [element]


def _gathered(elements: Sequence[Element]) -> Iterator[Element]:
    """The elements, with what several in a row have in common said once; opacity is not the same of a group."""

    def looks(element: Element) -> dict[str, str]:
        return {name: value for name, value in element.attrib.items() if name not in SVG_PLACES}

    for common, alike in groupby(elements, key=looks):
        members = list(alike)
        if len(members) < 3 or not common or "opacity" in common:
            yield from members
            continue
        for member in members:
            member.attrib = {name: value for name, value in member.attrib.items() if name in SVG_PLACES}
        group = Element(f"{{{SVG}}}g", common)
        group[:] = members
        yield group
