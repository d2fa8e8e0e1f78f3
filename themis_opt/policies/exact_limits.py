"""The knobs of the reference policy."""

from dataclasses import dataclass
from typing import Literal

from themis_opt.allowance import SearchLimits


@dataclass(frozen=True)
class ExactLimits(SearchLimits):
    """Limits of a search for a schedule of collectives, and its parts.

    Parameters
    ----------
    sizes : {"equal", "free"}
        Whether chunks are equal, or of any sizes and at most as many as the instance says.
    local_search, cp_sat : bool
        Whether to use these parts.
    """

    sizes: Literal["equal", "free"] = "equal"
    local_search: bool = True
    cp_sat: bool = True
