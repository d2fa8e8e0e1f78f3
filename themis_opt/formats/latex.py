"""Rows of results as a table for LaTeX, with the rules of the package booktabs."""

from collections.abc import Mapping, Sequence

LATEX_ESCAPES: Mapping[int, str] = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
    }
)


def to_latex(headings: Sequence[str], rows: Sequence[Sequence[str]], note: str) -> str:
    """A table: the first column to the left, the others to the right; `note` stands above it as a comment.

    Units stay in the cells, separated by thin spaces that do not break.
    """
    lines = [
        f"% {' '.join(note.split())}",  # a line break would end the comment
        r"% needs \usepackage{booktabs}",
        rf"\begin{{tabular}}{{l{'r' * (len(headings) - 1)}}}",
        r"\toprule",
        _line(headings),
        r"\midrule",
        *(_line(row) for row in rows),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(_cell(cell) for cell in cells) + r" \\"


def _cell(text: str) -> str:
    """A cell; only numbers are tied to what follows them."""
    words = " ".join(text.translate(LATEX_ESCAPES).split())
    return words.replace(" ", r"\,") if words[:1].isdigit() else words
