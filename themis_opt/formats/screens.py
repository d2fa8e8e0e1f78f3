"""What makes a picture fit the screen on which it is shown."""

import re

# Only of a picture that is a document or an image: inside another document `:root` is not `svg`.
SCREEN_STYLE = (
    "<style>svg:root{max-width:100%;height:auto}@media(prefers-color-scheme:dark){"
    "svg:root{color-scheme:dark;filter:invert(.9)hue-rotate(180deg)}}</style>"
)


def fit_screens(svg: str) -> str:
    """The SVG, no wider than a narrow window, and dark where pages are: lightness is inverted, hues stay."""
    return re.sub(r"<svg\b[^>]*>", lambda root: f"{root[0]}{SCREEN_STYLE}", svg, count=1)
