"""NPUs of unequal speed that train together: the slowest is waited for.

Synchronous data parallelism on unequal nodes, as in HetSeq (Y. Ding et al., https://arxiv.org/abs/2009.14783): an
iteration lasts as long as its slowest rank computes.  With equal shares every rank has the same batch; with
proportional ones the batches follow the speeds, in whole samples, so that the last rank is done as early as can be.
Where time is linear in the batch, equal shares take mean(s) / min(s) times as long as proportional ones.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

from themis_opt.base.errors import InputError, check_choice, reading

BatchShare = Literal["equal", "proportional"]


@dataclass(frozen=True)
class Unequal:
    """Groups of equally many NPUs, with the speed of each relative to the NPU of the given times."""

    speeds: tuple[Fraction, ...] = ()  # one per group; none where all NPUs are as fast as the times say
    share: BatchShare = "equal"  # how the batch of all is divided

    def __str__(self) -> str:
        speeds = ", ".join(f"{float(speed):g}" for speed in self.speeds)
        return f"speeds {speeds} with {self.share} shares"

    def check(self, num_npus: int, batch: int) -> None:
        """Refuse what fits neither the NPUs nor the batch.

        Raises InputError if groups of equally many NPUs cannot have these speeds, or one of them would be left without
        a sample.
        """
        if not self.speeds:
            return
        if num_npus % len(self.speeds):
            rule = f"must be of groups of equally many NPUs: {len(self.speeds)} do not divide {num_npus}"
            raise InputError(rule, field="--speeds", value=len(self.speeds))
        if min(self.samples(batch)) == 0:
            rule = f"leaves a group without a sample: the batch of {batch} for each is too small"
            raise InputError(rule, field="--share", value=self.share)

    def samples(self, batch: int) -> tuple[int, ...]:
        """Samples of one NPU of each group, where `batch` is their mean."""
        if self.share == "equal":
            return (batch,) * len(self.speeds)
        total = batch * len(self.speeds)
        counts = [int(total * speed / sum(self.speeds)) for speed in self.speeds]
        for _ in range(total - sum(counts)):
            done = [(count + 1) / speed for count, speed in zip(counts, self.speeds, strict=True)]
            counts[done.index(min(done))] += 1
        return tuple(counts)

    def slowest(self, batch: int) -> Fraction:
        """Time of the slowest group for its samples, relative to one with speed 1 and `batch` samples."""
        if not self.speeds:
            return Fraction(1)
        return max(count / speed for count, speed in zip(self.samples(batch), self.speeds, strict=True)) / batch


EQUAL = Unequal()  # all NPUs are as fast as the times say


def parse_unequal(text: str, share: str) -> Unequal:
    """Speeds of a list such as ``"1,1,0.5"``; :data:`EQUAL` without one, and where all of them are 1.

    Raises InputError if one of them is no positive number, or the share is unknown or says nothing.
    """
    check_choice(share, get_args(BatchShare), "--share")
    if not text and share != "equal":
        raise InputError("needs --speeds", field="--share", value=share)
    with reading("--speeds", text, "must be numbers with commas between, such as 1,1,0.5"):
        speeds = tuple(Fraction(part.strip()) for part in text.split(",")) if text else ()
    if any(speed <= 0 for speed in speeds):
        raise InputError("must be more than 0 each", field="--speeds", value=text)
    return Unequal(speeds, share) if set(speeds) - {1} else EQUAL  # type: ignore[arg-type]  # checked above
