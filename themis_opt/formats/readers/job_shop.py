"""Job shop benchmark files: checked, and refused as such.

Their times are free numbers per operation, those of a collective follow from bytes, bandwidths and the order in which
a chunk visits the dimensions; so a job shop is no instance.
"""

from collections.abc import Sequence

from themis_opt.base.sources import Source
from themis_opt.formats.job_shop import read_job_shop
from themis_opt.formats.readers.parts import Part, Reader, only


def _recognizes(source: Source) -> bool:
    first = source.head.split("\n", 1)[0].split()
    return len(first) in (2, 3) and all(word.replace(".", "", 1).isdecimal() for word in first)


def _read(sources: Sequence[Source]) -> Part:
    source = only(sources, "job shop")
    shop = read_job_shop(source.path)
    raise source.error(
        f"a job shop of {len(shop.jobs)} jobs on {shop.num_machines} machines is no collective, since its times do not "
        "follow from bytes; a solver's answer to an exported one is read by 'export SCHEDULE --to fjsp:starts=FILE'"
    )


READER = Reader("flexible job shop problem: checked, and told that it is no collective", ("fjs",), _recognizes, _read)
