"""Forgeries of solutions and certificates of the library: each looks faster, or proves more, than is possible.

A forgery changes a copy of a document, and returns False where the document has nothing to forge.
"""

import copy
import re
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

Document = dict[str, Any]
Forgery = Callable[[Document], bool | None]


def rows_of(document: Document) -> list[Document]:
    return document["links"] if "links" in document else document["dimensions"]


def turns_of(row: Document) -> list[Any]:
    return row["order" if "order" in row else "issue_order"]


def longest(document: Document) -> Document:
    return max(rows_of(document), key=lambda row: len(turns_of(row)))


def split_row(document: Document) -> bool | None:
    """Half of the turns of a dimension or link in a second row of the same name: both halves run at once."""
    row = longest(document)
    turns = turns_of(row)
    if len(turns) < 2:
        return False
    other = copy.deepcopy(row)
    half = len(turns) // 2
    turns_of(other)[:half] = []
    turns[half:] = []
    rows_of(document).append(other)
    return None


def drop_turns(document: Document) -> None:
    """Half of the turns never happen."""
    turns = turns_of(longest(document))
    turns[len(turns) // 2 :] = []


def drop_row(document: Document) -> None:
    """A dimension or a link that serves nobody."""
    rows_of(document).remove(longest(document))


def repeat_turn(document: Document) -> None:
    """A stage that is served twice, in the place of another."""
    turns = turns_of(longest(document))
    turns[-1] = copy.deepcopy(turns[0])
    if len(turns) == 1:
        turns.append(copy.deepcopy(turns[0]))


def rename_row(document: Document) -> None:
    """Turns of a dimension or a link that is not there."""
    row = longest(document)
    if "ends" in row:
        row["ends"] = [row["ends"][0], "elsewhere"]
    else:
        row["name"] = "elsewhere"


def unnamed_row(document: Document) -> None:
    """A name that is a number."""
    row = longest(document)
    if "ends" in row:
        row["ends"] = [0, 1]
    else:
        row["name"] = 0


def chunks_of(document: Document) -> list[Document]:
    return max((part["chunks"] for part in document.get("collectives", ())), key=len, default=[])


def transfers_of(document: Document) -> list[Document]:
    return document.get("transfers", [])


def of(parts_of: Callable[[Document], list[Document]]) -> Callable[[Callable[[list[Document]], bool | None]], Forgery]:
    """Makes a forgery of a function that changes some parts of a document."""

    def of_parts(change: Callable[[list[Document]], bool | None]) -> Forgery:
        def forge(document: Document) -> bool | None:
            parts = parts_of(document)
            return change(parts) if parts else False

        return update_wrapper(forge, change)

    return of_parts


@of(chunks_of)
def lose_chunk(chunks: list[Document]) -> None:
    """The largest chunk stays where it is."""
    chunks.remove(max(chunks, key=lambda chunk: chunk["bytes"]))


@of(chunks_of)
def halve_bytes(chunks: list[Document]) -> None:
    """Every chunk has half of its bytes."""
    for chunk in chunks:
        chunk["bytes"] //= 2


@of(chunks_of)
def negative_bytes(chunks: list[Document]) -> bool | None:
    """A chunk of negative bytes pays for another."""
    if len(chunks) < 2:
        return False
    chunks[0]["bytes"], chunks[1]["bytes"] = -chunks[0]["bytes"], chunks[1]["bytes"] + 2 * chunks[0]["bytes"]
    return None


@of(chunks_of)
def fractional_bytes(chunks: list[Document]) -> None:
    """Bytes that are no whole number."""
    chunks[0]["bytes"] += 0.5


@of(chunks_of)
def bytes_in_words(chunks: list[Document]) -> None:
    """Bytes as a text."""
    chunks[0]["bytes"] = str(chunks[0]["bytes"])


@of(chunks_of)
def true_index(chunks: list[Document]) -> None:
    """An index that is true or false."""
    chunks[0]["index"] = bool(chunks[0]["index"])


@of(chunks_of)
def equal_indices(chunks: list[Document]) -> bool | None:
    """Two chunks with one index."""
    if len(chunks) < 2:
        return False
    chunks[1]["index"] = chunks[0]["index"]
    return None


@of(chunks_of)
def leave_out_dimension(chunks: list[Document]) -> None:
    """A chunk that does not visit one of its dimensions."""
    for name in [name for name in chunks[0] if name.endswith("_order")]:
        chunks[0][name] = chunks[0][name][1:]


@of(chunks_of)
def no_orders(chunks: list[Document]) -> None:
    """A chunk without its orders."""
    for name in [name for name in chunks[0] if name.endswith("_order")]:
        del chunks[0][name]


def lose_collective(document: Document) -> bool | None:
    """A collective or piece that is not done, whose turns are gone too."""
    lost = document["pieces" if "pieces" in document else "collectives"].pop()
    for row in document.get("dimensions", ()):
        row["issue_order"] = [turn for turn in row["issue_order"] if turn["collective"] != lost.get("name")]


def scatter_alone(document: Document) -> bool | None:
    """Halves of a collective that run at once."""
    parts = document.get("collectives", [])
    part = next((part for part in parts if part["kind"] == "all_reduce"), None)
    if part is None:
        return False
    other = copy.deepcopy(part)
    part["part"], other["part"] = "scatter", "gather"
    part["tensors"] = other["tensors"] = part.get("tensors", [part["name"]])
    other["name"] += " again"
    parts.append(other)
    return None


def fuse_early(document: Document) -> bool | None:
    """Two collectives in one that leaves with the first."""
    parts = document.get("collectives", [])
    if len(parts) < 2:
        return False
    first, second = parts[:2]
    first["tensors"] = [*first.get("tensors", [first["name"]]), *second.get("tensors", [second["name"]])]
    first["bytes"] += second["bytes"]
    first["chunks"][0]["bytes"] += second["bytes"]
    del parts[1]
    for row in document["dimensions"]:
        turns = turns_of(row)
        turns[:] = [turn for turn in turns if turn["collective"] != second["name"]]
    return None


def other_kind(document: Document) -> bool | None:
    """An all-reduce that only scatters."""
    part = next((part for part in document.get("collectives", []) if part["kind"] == "all_reduce"), None)
    if part is None:
        return False
    part["kind"] = "reduce_scatter"
    return None


def of_shifts(value: Any) -> Forgery:
    def forge(document: Document) -> bool | None:
        turns = [turn for row in document.get("dimensions", ()) for turn in turns_of(row) if "shift" in turn]
        for turn in turns:
            turn["shift"] = value
        return None if turns else False

    forge.__name__ = f"shift_{value}"
    return forge


def wait_for_nothing(document: Document) -> bool | None:
    """A launch before its gradient is there, or a transfer that waits for nothing."""
    if "transfers" in document:
        waiting = [transfer for transfer in document["transfers"] if transfer["after"]]
        for transfer in waiting:
            transfer["after"] = []
        return None if waiting else False
    launched = [part for part in document["collectives"] if isinstance(part.get("after"), dict)]
    for part in launched:
        part["after"]["later"] = -1
    return None if launched else False


@of(transfers_of)
def lose_transfer(transfers: list[Document]) -> None:
    """The last message is never sent."""
    transfers.pop()


@of(transfers_of)
def jump(transfers: list[Document]) -> None:
    """A message over a link that is not there."""
    transfers[0]["route"] = [transfers[0]["route"][0], "elsewhere", transfers[0]["route"][-1]]


@of(transfers_of)
def stay(transfers: list[Document]) -> None:
    """A message that goes nowhere."""
    transfers[0]["route"] = transfers[0]["route"][:1]


@of(transfers_of)
def wait_backwards(transfers: list[Document]) -> None:
    """A message that waits for one of a negative number."""
    transfers[-1]["after"] = [-1]


@of(transfers_of)
def adds_null(transfers: list[Document]) -> None:
    """Sums that are neither true nor false."""
    for transfer in transfers:
        transfer["adds"] = None


def negative_elements(document: Document) -> bool | None:
    """A piece of negative elements pays for another of the same ends."""
    if not document.get("pieces"):
        return False
    piece = document["pieces"][0]
    document["pieces"].append(piece | {"elements": -piece["elements"]})
    document["pieces"].append(piece | {"elements": piece["elements"]})
    return None


def fractional_chunks(document: Document) -> bool | None:
    """Pieces cut in half a chunk."""
    if "chunks" not in document:
        return False
    document["chunks"] = 0.5
    return None


def negative_hops(document: Document) -> bool | None:
    """Turns of hops that are counted from the end."""
    if "links" not in document:
        return False
    for row in document["links"]:
        row["order"] = [[chunk, -1 - hop] for chunk, hop in row["order"]]
    return None


SOLUTIONS: tuple[Forgery, ...] = (
    split_row, drop_turns, drop_row, repeat_turn, rename_row, unnamed_row, lose_chunk, halve_bytes, negative_bytes,
    fractional_bytes, bytes_in_words, true_index, equal_indices, leave_out_dimension, no_orders, lose_collective,
    scatter_alone, fuse_early, other_kind, of_shifts(0.5), of_shifts(-1), of_shifts(True), wait_for_nothing,
    lose_transfer, jump, stay, wait_backwards, adds_null, negative_elements, fractional_chunks, negative_hops,
)  # fmt: skip
"""What a cheat does to an order table."""


def parts_with(field: str, document: Document) -> list[Document]:
    """The bounds of a certificate, or the windows in them, that have a field; `few` belongs to bounds with windows."""
    windows = [window for part in document["bounds"] for window in part.get("windows", ()) if isinstance(window, dict)]
    return [part for part in (*document["bounds"], *windows) if ("windows" if field == "few" else field) in part]


def of_field(field: str, value: Any) -> Forgery:
    """Another value of a field; a function gives it from the value that is there."""

    def forge(document: Document) -> bool | None:
        parts = parts_with(field, document)
        for part in parts:
            part[field] = value(part[field]) if callable(value) else value
        return None if parts else False

    shown = re.sub(r"\W+", "_", str(value(3) if callable(value) else value))
    forge.__name__ = f"{field}_{shown}"
    return forge


def unknown_bound(document: Document) -> None:
    """A bound of a kind of its own."""
    document["bounds"].append({"kind": "miracle", "picoseconds": 10**15})


def trusted_word(document: Document) -> None:
    """A number in the name of a solver, without its work."""
    document["bounds"].append({"kind": "solver", "solver": "oracle", "picoseconds": "1e30"})


CERTIFICATES: tuple[Forgery, ...] = (
    of_field("weight", lambda value: 3 * value), of_field("weight", lambda value: -value),
    of_field("weight", str), of_field("head", lambda value: value + 10**12),
    of_field("tail", lambda value: value + 10**12), of_field("head", lambda value: -(10**12)),
    of_field("tail", lambda value: value + 0.5), of_field("resource", lambda value: "elsewhere"),
    of_field("few", [0.5]), of_field("few", [-1]), of_field("few", ["1"]), of_field("few", [0] * 9),
    of_field("into", 2), of_field("into", None), of_field("nodes", []), of_field("inside", ["elsewhere"]),
    of_field("side", "both"), of_field("lengths", [["a", "b", -1]]), of_field("lengths", [["a", "b", 1]]),
    unknown_bound, trusted_word,
)  # fmt: skip
"""What a cheat does to a certificate."""


def forged(document: Document, forgery: Forgery) -> Document | None:
    """The document with a forgery; None where it has nothing to forge."""
    changed = copy.deepcopy(document)
    return None if forgery(changed) is False else changed
