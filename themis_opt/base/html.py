"""Results in notebooks: sentences above a table, as the command line prints them."""

from collections.abc import Iterable, Sequence
from html import escape


def page(sentences: Iterable[str], headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Sentences as paragraphs and a table below, as HTML."""
    paragraphs = "".join(f"<p>{escape(sentence)}</p>" for sentence in sentences)
    body = "".join(_row("td", row) for row in rows)
    return f"<div>{paragraphs}<table><thead>{_row('th', headings)}</thead><tbody>{body}</tbody></table></div>"


def _row(tag: str, texts: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(text)}</{tag}>' for text in texts)}</tr>"
