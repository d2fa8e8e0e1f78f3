r"""Microbatch order: when the stages of a pipeline run the passes of microbatches, a constraint programme.

Sets and data
    Microbatches :math:`i = 1..m`, parts :math:`q = 1..Q` of a model, stages s with parts :math:`Q_s`.  Steps
    :math:`x = 1..X` of a microbatch on a part: forward, backward, and with split passes weights; durations
    :math:`d_{xq}`.  The integer :math:`l_q`, time of a message between parts q and q + 1.  Memory :math:`K`, of which a
    microbatch takes :math:`g_1` from the start of the first step to the end of the second and :math:`g_2` from then on
    to the end of the last.  Where stages have hosts: the integer :math:`o`, time of what a microbatch keeps of a part
    on the link to the host, in each direction.

Variables
    - :math:`s_{xqi}`, start of a step; with :math:`d_{xq}` an interval;
    - :math:`f \in \{0, 1\}`, for two steps of a stage which of them is first, where (3) or (4) ask for it;
    - :math:`y_{qi}` and :math:`z_{qi}`, starts of the messages from q to q + 1 and back, where messages may queue;
    - :math:`a_{qi} \in \{0, 1\}`, whether it leaves, :math:`u_{qi}` and :math:`v_{qi}`, when it does and comes back;
    - :math:`T`, the objective.

Objective
    minimise :math:`T`

Constraints
    1. *passes*: :math:`s_{1,q+1,i} \ge s_{1qi} + d_{1q} + l_q`, :math:`s_{2qi} \ge s_{2,q+1,i} + d_{2,q+1} + l_q`,
       :math:`s_{2Qi} \ge s_{1Qi} + d_{1Q}` and :math:`s_{3qi} \ge s_{2qi} + d_{2q}`;
    2. *no overlap*: the intervals of a stage are disjoint;
    3. *messages*: where they queue, :math:`y` and :math:`z` lie between the steps of (1), those of a link are disjoint,
       and in the order of the steps that send them;
    4. *memory*: what the microbatches on a stage take is at most K as each first step begins: what the steps before it
       took and gave back, counted by :math:`f`;
    5. *symmetry*: :math:`s_{xq,i+1} \ge s_{xqi} + d_{xq}`;
    6. *objective*: T is at least the end of every last step minus the start of the first step of the stage, or, for
       the makespan, than the end itself;
    7. *bounds*: :math:`L \le T \le H`;
    8. *host*: if :math:`a_{qi} = 1`, then :math:`u_{qi} \ge s_{1qi} + d_{1q}`, :math:`v_{qi} \ge u_{qi} + o` and
       :math:`s_{2qi} \ge v_{qi} + o`; transfers of a stage in one direction are disjoint, and (4) holds without
       :math:`g_1` from :math:`u_{qi} + o` to :math:`v_{qi}`.

If T counts from the first step of each stage, that of part 1 begins at 0.  Each stage begins before the first
microbatch is back there, by H at the latest, so that all starts are below 2 H.

If none can leave, microbatches are alike, so (5) loses nothing: in any schedule let the i-th of them take the i-th
earliest start of each step. The same intervals stay busy, results still come before they are needed, and the memory at
any time depends on the numbers of begun and of ended steps alone. Most f are then known.  Where some leave, the last
one to come may be the first to go back, (5) is left out, and (4) is written as intervals in which memory is taken.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations, product

from ortools.sat.python import cp_model

from formulations.cp_sat import SolverProgress, search
from formulations.limits import Limits

StartTable = list[list[list[int]]]  # starts by step, part and microbatch
Pass = tuple[int, int, int]  # step, part and microbatch


@dataclass(frozen=True)
class MicrobatchProblem:
    """What the steps of microbatches take.

    `durations`: by step and part.
    `stages`: the parts of each stage.
    `hops`: time of the message behind each part but the last, 0 within a stage.
    `microbatches`: how many there are.
    `queue`: whether messages of a link may wait for each other.
    `memory`: what a stage can keep.
    `kept`: what a microbatch takes of it before the end of the second step and after it.
    `from_first`: whether the time of a stage counts from its first step, instead of from 0.
    `transfer`: time from a stage to its host or back; None where nothing leaves.
    """

    durations: Sequence[Sequence[int]]
    stages: Sequence[Sequence[int]]
    hops: Sequence[int]
    microbatches: int
    queue: bool
    memory: int | None
    kept: tuple[int, int]
    from_first: bool
    transfer: int | None = None


Transfers = Mapping[tuple[int, int], tuple[int, int]]  # by part and microbatch when activations leave and come back


@dataclass(frozen=True)
class OrderOutcome:
    """Best starts (None if there are none), proven bound and status of the search, and what leaves for the host."""

    starts: StartTable | None
    bound: int
    status: str
    transfers: Transfers


class MicrobatchOrder:
    """The model, for integer data.

    `problem`: what the steps take.
    `lower`, `upper`: a bound, and the objective of some feasible schedule.
    """

    def __init__(self, problem: MicrobatchProblem, lower: int, upper: int) -> None:
        self.problem = problem
        self.model = cp_model.CpModel()
        self.model.name = "microbatch_order"
        self._horizon = 2 * upper if problem.from_first else upper
        self.objective = self.model.new_int_var(lower, upper, "objective")  # (7)
        self.starts = [
            [
                [self.model.new_int_var(0, self._horizon, f"start{x}_{q}_{i}") for i in range(problem.microbatches)]
                for q in range(len(durations))
            ]
            for x, durations in enumerate(problem.durations)
        ]
        self._intervals = [
            [
                [self.model.new_fixed_size_interval_var(start, duration, "") for start in starts]
                for duration, starts in zip(durations, by_part, strict=True)
            ]
            for durations, by_part in zip(problem.durations, self.starts, strict=True)
        ]
        self._first: dict[tuple[Pass, Pass], cp_model.IntVar] = {}
        self._transfers: dict[tuple[int, int], tuple[cp_model.IntVar, cp_model.IntVar, cp_model.IntVar]] = {}
        if problem.transfer is not None and problem.memory is not None:
            self._host(problem.transfer)
        self._passes()
        self._no_overlap()
        self._memory()
        self._symmetry()
        self._objective()
        self.model.minimize(self.objective)

    def solve(self, limits: Limits, report: SolverProgress) -> OrderOutcome:
        """Search within limits; `report` hears of every better solution and bound."""
        variables = [start for by_part in self.starts for starts in by_part for start in starts]
        variables += [variable for transfer in self._transfers.values() for variable in transfer]
        outcome = search(self.model, variables, limits, report)
        value = outcome.value
        if value is None:
            return OrderOutcome(None, int(outcome.bound), outcome.status, {})
        table = [[[value[start.index] for start in starts] for starts in by_part] for by_part in self.starts]
        transfers = {
            place: (value[out.index], value[back.index])
            for place, (leaves, out, back) in self._transfers.items()
            if value[leaves.index]
        }
        return OrderOutcome(table, int(outcome.bound), outcome.status, transfers)

    def hint(self, table: StartTable, transfers: Transfers) -> None:
        """Suggest starts, those of each step in ascending order where nothing leaves for the host."""
        for place, moments in self._transfers.items():
            for variable, value in zip(moments, (place in transfers, *transfers.get(place, ())), strict=False):
                self.model.add_hint(variable, value)
        for by_part, values in zip(self.starts, table, strict=True):
            for variables, starts in zip(by_part, values, strict=True):
                for variable, start in zip(variables, starts, strict=True):
                    self.model.add_hint(variable, start)

    def _passes(self) -> None:
        """(1) and (3)."""
        links: dict[tuple[int, int], dict[Pass, cp_model.IntervalVar]] = {}
        stage_of = {part: s for s, parts in enumerate(self.problem.stages) for part in parts}
        last = len(self.problem.hops)
        for i in range(self.problem.microbatches):
            for q, hop in enumerate(self.problem.hops):
                for x, one, other in ((0, q, q + 1), (1, q + 1, q)):
                    end, begin = self._end(x, one, i), self.starts[x][other][i]
                    if hop and self.problem.queue:
                        sent = self.model.new_int_var(0, self._horizon, f"message{x}_{one}_{i}")
                        self.model.add(sent >= end)
                        self.model.add(begin >= sent + hop)
                        interval = self.model.new_fixed_size_interval_var(sent, hop, "")
                        links.setdefault((stage_of[one], stage_of[other]), {})[x, one, i] = interval
                    self.model.add(begin >= end + hop)
            self.model.add(self.starts[1][last][i] >= self._end(0, last, i))
            for before, after in pairwise(range(1, len(self.starts))):
                for q in range(last + 1):
                    self.model.add(self.starts[after][q][i] >= self._end(before, q, i))
        for messages in links.values():
            self.model.add_no_overlap(messages.values())
            for sent, later in permutations(messages, 2):
                follows = messages[later].start_expr() >= messages[sent].end_expr()
                self.model.add(follows).only_enforce_if(self._precedes(sent, later))

    def _end(self, step: int, part: int, microbatch: int) -> cp_model.LinearExprT:
        return self.starts[step][part][microbatch] + self.problem.durations[step][part]

    def _precedes(self, one: Pass, other: Pass) -> cp_model.LiteralT:
        """Whether a pass ends before another one of its stage begins; a variable where the rules leave it open."""
        if self._has_to_precede(one, other) or self._has_to_precede(other, one):
            return self._has_to_precede(one, other)
        pair = min(one, other), max(one, other)
        if pair not in self._first:
            literal = self._first[pair] = self.model.new_bool_var(f"first_{pair}")
            before, after = (self._intervals[step][part][i] for step, part, i in pair)
            self.model.add(before.end_expr() <= after.start_expr()).only_enforce_if(literal)
            self.model.add(after.end_expr() <= before.start_expr()).only_enforce_if(~literal)
        return self._first[pair] if one < other else ~self._first[pair]

    def _has_to_precede(self, one: Pass, other: Pass) -> bool:
        """Whether (1) and (5) say so, at least one of the two being a first step, or both being sent."""
        (x, q, i), (y, r, j) = one, other
        in_turn = i == j or (i < j and not self._transfers)
        return one != other and in_turn and (x > 0, -q if x else q) <= (y > 0, -r if y else r)

    def _no_overlap(self) -> None:
        """(2)."""
        for parts in self.problem.stages:
            intervals = (interval for by_part in self._intervals for q in parts for interval in by_part[q])
            self.model.add_no_overlap(list(intervals))

    def _memory(self) -> None:
        """(4)."""
        before, after = self.problem.kept
        numbers, last = range(self.problem.microbatches), len(self.problem.durations) - 1
        changes = ((0, before), (1, after - before), (last, -after))
        for parts in () if self.problem.memory is None else self.problem.stages:
            if self._transfers:
                held = [interval for q in parts for interval in self._held_or_away(q)]
                self.model.add_cumulative(*zip(*held, strict=True), self.problem.memory)
                continue
            steps = [((x, q, i), change) for x, change in changes for q, i in product(parts, numbers) if change]
            for new in product((0,), parts, numbers):
                kept = sum(change * self._precedes(step, new) for step, change in steps if step != new)
                self.model.add(kept + before <= self.problem.memory)

    def _host(self, transfer: int) -> None:
        """(8)."""
        for parts in self.problem.stages:
            links: tuple[list[cp_model.IntervalVar], ...] = ([], [])
            for q, i in product(parts, range(self.problem.microbatches)):
                leaves = self.model.new_bool_var(f"leaves_{q}_{i}")
                out, back = (self.model.new_int_var(0, self._horizon, f"{name}_{q}_{i}") for name in ("out", "back"))
                steps = (self._end(0, q, i), out, back, self.starts[1][q][i])
                for (one, following), time in zip(pairwise(steps), (0, transfer, transfer), strict=True):
                    self.model.add(following >= one + time).only_enforce_if(leaves)
                for link, moment in zip(links, (out, back), strict=True):
                    link.append(self.model.new_optional_fixed_size_interval_var(moment, transfer, leaves, ""))
                self._transfers[q, i] = (leaves, out, back)
            for link in links:
                self.model.add_no_overlap(link)

    def _held_or_away(self, part: int) -> Iterator[tuple[cp_model.IntervalVar, int]]:
        """Intervals in which a part keeps something here, and how much."""
        before, after = self.problem.kept
        for i, start in enumerate(self.starts[0][part]):
            leaves, out, back = self._transfers[part, i]
            due = self._end(1, part, i)
            stays = [(start, due, ~leaves), (start, out + (self.problem.transfer or 0), leaves), (back, due, leaves)]
            for begin, end, literal in stays:
                size = self.model.new_int_var(0, self._horizon, "")
                yield self.model.new_optional_interval_var(begin, size, end, literal, ""), before
            size = self.model.new_int_var(0, self._horizon, "")
            yield self.model.new_interval_var(due, size, self._end(-1, part, i), ""), after

    def _symmetry(self) -> None:
        """(5)."""
        if self._transfers:
            return
        for durations, by_part in zip(self.problem.durations, self.starts, strict=True):
            for duration, starts in zip(durations, by_part, strict=True):
                for one, following in pairwise(starts):
                    self.model.add(following >= one + duration)

    def _objective(self) -> None:
        """(6)."""
        numbers = range(self.problem.microbatches)
        for number, parts in enumerate(self.problem.stages):
            begin: cp_model.LinearExprT = self.starts[0][parts[0]][0] if self.problem.from_first else 0
            if self._transfers and self.problem.from_first:  # any microbatch may be the first
                begin = self.model.new_int_var(0, self._horizon, f"begin{number}")
                for i in numbers:
                    self.model.add(begin <= self.starts[0][parts[0]][i])
            for q, i in product(parts, numbers if self._transfers else numbers[-1:]):
                self.model.add(self.objective >= self._end(-1, q, i) - begin)
