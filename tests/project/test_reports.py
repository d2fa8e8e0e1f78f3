"""The written reports are short, say little in numbers, and link what is there."""

import re
from pathlib import Path

import pytest

REPORTS = Path(__file__).parents[2] / "reports"
PAGES = sorted(REPORTS.rglob("*.md"))
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


def prose(text: str) -> str:
    """What a reader reads in sentences: no tables, headings, pictures, code, links' targets and names of figures."""
    without = (
        r"```.*?```",
        r"<summary>.*?</summary>",
        r"!\[[^\]]*\]\([^)]*\)",
        r"`[^`]*`",
        r"<[^>]*>",
        r"https?://\S+",
    )
    for pattern in without:
        text = re.sub(pattern, "", text, flags=re.DOTALL)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    lines = [line for line in text.splitlines() if not line.startswith(("|", "#"))]
    return re.sub(r"(Figs?\.|[Ff]igures?|[Tt]able) \d+", "", "\n".join(lines))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(REPORTS)))
def test_a_report_is_short_and_says_little_in_numbers(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    numbers = re.findall(r"(?<![\w.-])\d[\d.,]*", prose(text))
    words = re.findall(r"[A-Za-z][\w'+/:=-]*", prose(text))
    assert len(numbers) <= 0.08 * len(words)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(REPORTS)))
def test_links_of_a_report_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []
