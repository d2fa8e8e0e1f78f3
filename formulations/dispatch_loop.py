"""The loop of :mod:`formulations.dispatch_tree`, on its arrays: to be compiled."""

from formulations.dispatch_tree import MAX_ROWS, SHARE_SLACK, DispatchTree, TreeSearch

REFUTED, FITS, UNDECIDED = 0, 1, 2  # what is known of the horizon
ABSENT = -1  # no stage, side, row, job or shares
TREE_ROUNDS = 60  # linear programmes of a node until it stands undecided; hardly one takes ten
FIRST_ROUNDS = 4
"""Linear programmes whose rows all children of a node begin with; half and twice as many take as long in all."""

MAX_PIVOTS = 300  # pivots of a linear programme until it is given up; hardly one takes ten
FEASIBLE = 1e-8  # violation, in horizons, up to which a point fulfils a constraint
INFEASIBLE = 1e-9  # negative slack, in horizons, that refutes: above rounding errors

SEEDS, FACTORS, SHIFT = (0x2545F4914F6CDD1D, 0x369DEA0F31A53F85), (0x1B873593CC9E2D51, 0x5BD1E995A3B19C37), 29
"""Any numbers without a pattern, of the two hashes that tell nodes apart."""

MOST_STATES = 4096  # of a job


def advance(tree: DispatchTree, search: TreeSearch, most: int) -> int:
    """Look at so many nodes more; what is known then."""
    jobs, machines = search.share.shape[1], search.served.shape[1]
    last = search.nodes[0] + most
    while search.nodes[0] < last:
        level = search.placed[0] + search.placed[1]
        side = level % 2
        job, machine = search.option[level] // machines, search.option[level] % machines
        if job >= jobs or job > search.num_begun[level]:
            if level == 0:
                return REFUTED
            take_back(search)
            continue
        search.option[level] += 1
        if not may_come(tree, search, level, side, job, machine):
            continue
        search.nodes[0] += 1
        dispatch(tree, search, level, side, job, machine)
        if not stands(tree, search, level, side):
            take_back(search)
        elif level + 1 == search.job.shape[1]:
            return FITS
    return UNDECIDED


def may_come(tree: DispatchTree, search: TreeSearch, level: int, side: int, job: int, machine: int) -> bool:
    """Whether a stage of a job can be the next one on a side."""
    reached, other = search.state[side, job], search.state[1 - side, job]
    target = tree.after[side, reached, machine]
    if reached == other or target < 0:
        return False
    origin, end = (target, other) if side == 0 else (other, target)
    if tree.chain_fixed[origin, end] < 0:
        return False
    opens = search.served[side, machine] == 0 and reached == first_state(tree, side)
    is_next: bool = not opens or machine >= search.opening[level, side]
    return is_next


def first_state(tree: DispatchTree, side: int) -> int:
    """Where a side begins."""
    return 0 if side == 0 else tree.after.shape[1] - 1


def dispatch(tree: DispatchTree, search: TreeSearch, level: int, side: int, job: int, machine: int) -> None:
    """Add a stage, and set out for the level above."""
    i, origin = search.placed[side], search.state[side, job]
    opens = search.served[side, machine] == 0 and origin == first_state(tree, side)
    search.job[side, i], search.machine[side, i] = job, machine
    search.origin[side, i], search.target[side, i] = origin, tree.after[side, origin, machine]
    search.state[side, job] = tree.after[side, origin, machine]
    search.served[side, machine] += 1
    search.placed[side] += 1
    above = level + 1
    search.option[above] = 0
    search.num_begun[above] = max(search.num_begun[level], job + 1)
    search.opening[above, 1 - side] = search.opening[level, 1 - side]
    closed = machine + 1 if opens else search.served.shape[1]
    search.opening[above, side] = closed if side == 0 or tree.most_lag == 0 else 0


def take_back(search: TreeSearch) -> None:
    """Remove the stage that came last."""
    side = (search.placed[0] + search.placed[1] - 1) % 2
    search.placed[side] -= 1
    i = search.placed[side]
    search.state[side, search.job[side, i]] = search.origin[side, i]
    search.served[side, search.machine[side, i]] -= 1


def stands(tree: DispatchTree, search: TreeSearch, level: int, side: int) -> bool:
    """Whether the node with the new stage is neither met before nor refuted; then its children have their rows."""
    first, second = key_of(search)
    slot = first & (len(search.memo) - 1)
    if search.memo[slot, 0] == first and search.memo[slot, 1] == second:
        return False
    measure_middle(tree, search)
    start_from(search, level + 1, level)
    for attempt in range(2):  # with the rows of the node below, then of this node
        rows_level, rounds, chained = level, TREE_ROUNDS, side
        if attempt == 1:
            start_anew(search, level + 1)
            rows_level, rounds, chained = level + 1, FIRST_ROUNDS, ABSENT
        num_rows = relax(tree, search, level + 1, rows_level, rounds, chained)
        if num_rows == ABSENT:
            return False
    search.num_rows[level + 1] = num_rows
    search.memo[slot, 0], search.memo[slot, 1] = first, second
    return True


def relax(tree: DispatchTree, search: TreeSearch, level: int, rows_level: int, rounds: int, chained: int) -> int:
    """Look for shares that fulfil all constraints; how many rows there are then, `ABSENT` if no shares do."""
    num_rows: int = search.num_rows[rows_level]
    for _ in range(rounds):
        place(tree, search, level, chained)
        more = add_rows(tree, search, level, rows_level, num_rows)
        if more == num_rows:
            return more
        num_rows = more
        if num_rows + len(tree.weight) + search.share.shape[1] > MAX_ROWS or not solve(
            search, level, rows_level, num_rows
        ):
            return num_rows
        if is_refuted(search, level, rows_level):
            return ABSENT
        take_shares(search, level)
    return num_rows


def place(tree: DispatchTree, search: TreeSearch, level: int, chained: int) -> None:
    """(4) under the shares of a level; on the side `chained` the last stage begins no earlier than the others."""
    for side in range(2):
        search.ready[side], search.free[side], search.latest_begin[side] = 0.0, 0.0, 0.0
        search.last_of[side], search.last_on[side], search.latest[side] = ABSENT, ABSENT, ABSENT
        for i in range(search.placed[side]):
            place_stage(tree, search, level, side, i, chained == side and i == search.placed[side] - 1)


def place_stage(tree: DispatchTree, search: TreeSearch, level: int, side: int, i: int, chained: bool) -> None:
    """When a stage begins, and why."""
    job, machine, origin = search.job[side, i], search.machine[side, i], search.origin[side, i]
    before, after = tree.lag_before[side, origin, machine], tree.lag_after[side, origin, machine]
    begin, cause, of_begin, wait = search.free[side, machine], search.last_on[side, machine], 0, 0.0
    if search.ready[side, job] + before > begin:
        begin, cause, wait = search.ready[side, job] + before, search.last_of[side, job], before
        if cause >= 0:
            wait += tree.lag_after[side, search.origin[side, cause], search.machine[side, cause]]
    if chained and search.latest_begin[side] > begin:
        begin, cause, of_begin, wait = search.latest_begin[side], search.latest[side], 1, 0.0
    search.begin[side, i], search.cause[side, i] = begin, cause
    search.of_begin[side, i], search.wait[side, i] = of_begin, wait
    if begin > search.latest_begin[side]:
        search.latest[side], search.latest_begin[side] = i, begin
    end = begin + tree.fixed[side, origin, machine] + tree.rate[side, origin, machine] * search.share[level, job]
    search.free[side, machine], search.last_on[side, machine] = end, i
    search.ready[side, job], search.last_of[side, job] = end + after, i


def measure_middle(tree: DispatchTree, search: TreeSearch) -> None:
    """What is fixed in the middle on every machine."""
    for machine in range(len(search.left)):
        search.left[machine] = 0.0
        for job in range(search.state.shape[1]):
            search.left[machine] += tree.left[search.state[0, job], search.state[1, job], machine]


def add_rows(tree: DispatchTree, search: TreeSearch, level: int, rows_level: int, num_rows: int) -> int:
    """Add linear pieces of the constraints that the shares of a level violate; how many rows there are then."""
    for number in range(len(tree.weight)):
        if load(tree, search, level, number) > FEASIBLE:
            add_load(tree, search, number)
            num_rows = add_row(search, rows_level, num_rows)
    for job in range(search.state.shape[1]):
        if chain(tree, search, level, job) > FEASIBLE:
            add_chain(tree, search, job)
            num_rows = add_row(search, rows_level, num_rows)
    return num_rows


def has_middle(tree: DispatchTree, search: TreeSearch, machine: int) -> bool:
    """Whether a machine still serves a stage in the middle."""
    num_left: int = search.job.shape[1] // len(search.left) - search.served[0, machine] - search.served[1, machine]
    return num_left > 0


def load(tree: DispatchTree, search: TreeSearch, level: int, number: int) -> float:
    """(5), the left side less the right one."""
    total = -1.0
    for machine in range(len(search.left)):
        weight = tree.weight[number, machine]
        if has_middle(tree, search, machine):
            head = max(search.free[0, machine], search.latest_begin[0])
            tail = max(search.free[1, machine], search.latest_begin[1])
            total += weight * (head + search.left[machine] + tail)
        else:
            total += weight * max(1.0 if weight < 1 else 0.0, search.free[0, machine] + search.free[1, machine])
    for job in range(search.state.shape[1]):
        total += tree.price[number, search.state[0, job], search.state[1, job]] * search.share[level, job]
    return total


def add_load(tree: DispatchTree, search: TreeSearch, number: int) -> None:
    """The linear piece of (5), as a row."""
    clear_row(search)
    for machine in range(len(search.left)):
        weight = tree.weight[number, machine]
        middle = has_middle(tree, search, machine)
        if middle:
            search.row[0] += weight * search.left[machine]
        elif weight < 1 and search.free[0, machine] + search.free[1, machine] <= 1:
            search.row[0] += weight
            continue
        for side in range(2):
            waits = middle and search.latest_begin[side] > search.free[side, machine]
            add_path(tree, search, side, search.latest[side] if waits else search.last_on[side, machine], waits, weight)
    for job in range(search.state.shape[1]):
        search.row[job + 1] += tree.price[number, search.state[0, job], search.state[1, job]]


def chain(tree: DispatchTree, search: TreeSearch, level: int, job: int) -> float:
    """(6), the left side less the right one."""
    origin, end = search.state[0, job], search.state[1, job]
    excess: float = search.ready[0, job] + search.ready[1, job] - 1.0
    if origin != end:
        excess += max(search.latest_begin[0] - search.ready[0, job], 0.0)
        excess += max(search.latest_begin[1] - tree.most_lag - search.ready[1, job], 0.0)
        excess += tree.chain_fixed[origin, end] + tree.chain_rate[origin, end] * search.share[level, job]
    return excess


def add_chain(tree: DispatchTree, search: TreeSearch, job: int) -> None:
    """The linear piece of (6), as a row."""
    clear_row(search)
    origin, end = search.state[0, job], search.state[1, job]
    search.row[0] += tree.chain_fixed[origin, end]
    search.row[job + 1] += tree.chain_rate[origin, end]
    for side in range(2):
        earlier = tree.most_lag if side == 1 else 0.0
        if origin != end and search.latest_begin[side] - earlier > search.ready[side, job]:
            search.row[0] -= earlier
            add_path(tree, search, side, search.latest[side], True, 1.0)
        else:
            i = search.last_of[side, job]
            if i >= 0:
                search.row[0] += tree.lag_after[side, search.origin[side, i], search.machine[side, i]]
            add_path(tree, search, side, i, False, 1.0)


def clear_row(search: TreeSearch) -> None:
    """Begin a row with the horizon on the left side."""
    search.row[:] = 0.0
    search.row[0] = -1.0


def add_path(tree: DispatchTree, search: TreeSearch, side: int, i: int, of_begin: bool, weight: float) -> None:
    """Add the begin or the end of a stage to the row, along the stages that it waits for."""
    while i >= 0:
        job, machine, origin = search.job[side, i], search.machine[side, i], search.origin[side, i]
        if not of_begin:
            search.row[0] += weight * tree.fixed[side, origin, machine]
            search.row[job + 1] += weight * tree.rate[side, origin, machine]
        search.row[0] += weight * search.wait[side, i]
        of_begin = search.of_begin[side, i] == 1
        i = search.cause[side, i]


def add_row(search: TreeSearch, rows_level: int, num_rows: int) -> int:
    """Append the row, with the last share expressed by the others (3)."""
    last = search.share.shape[1] - 1
    for number in range(last):
        search.rows[rows_level, num_rows, number] = search.row[number + 1] - search.row[last + 1]
    search.rows[rows_level, num_rows, last] = 1.0
    search.limits[rows_level, num_rows] = -search.row[0] - search.row[last + 1]
    return num_rows + 1


def start_anew(search: TreeSearch, level: int) -> None:
    """Equal shares, and the rows of (3) alone, of which all but the last are active: the slack is limited by 1."""
    jobs = search.share.shape[1]
    search.num_rows[level] = jobs + 1
    search.multiplier[level], search.share[level], search.inverse[level] = 0.0, 1.0 / jobs, 0.0
    for i in range(jobs):
        search.active[level, i], search.inverse[level, i, i] = i, -1.0
        search.inverse[level, i, jobs - 1] = SHARE_SLACK
    search.inverse[level, jobs - 1, jobs - 1] = search.multiplier[level, jobs - 1] = 1.0


def start_from(search: TreeSearch, level: int, below: int) -> None:
    """The shares and active rows of another level."""
    jobs = search.share.shape[1]
    for i in range(jobs):
        search.active[level, i], search.multiplier[level, i] = search.active[below, i], search.multiplier[below, i]
        search.share[level, i] = search.share[below, i]
        for j in range(jobs):
            search.inverse[level, i, j] = search.inverse[below, i, j]


def solve(search: TreeSearch, level: int, rows_level: int, num_rows: int) -> bool:
    """The shares of the greatest slack by the dual simplex method; whether it ended with them."""
    size = search.share.shape[1]
    for _ in range(MAX_PIVOTS):
        for i in range(size):
            search.point[level, i] = 0.0
            for j in range(size):
                search.point[level, i] += (
                    search.inverse[level, i, j] * search.limits[rows_level, search.active[level, j]]
                )
        enters, worst = ABSENT, 1e-11
        for row in range(num_rows):
            excess = -search.limits[rows_level, row]
            for i in range(size):
                excess += search.rows[rows_level, row, i] * search.point[level, i]
            if excess > worst:
                enters, worst = row, excess
        if enters == ABSENT:
            return True
        if not pivot(search, level, rows_level, enters):
            return False
    return False


def pivot(search: TreeSearch, level: int, rows_level: int, enters: int) -> bool:
    """Make a row active in the place of that whose multiplier is the first to be 0; whether there is one."""
    size, leaves, ratio = search.share.shape[1], ABSENT, 1e300
    for j in range(size):
        search.step[j] = 0.0
        for i in range(size):
            search.step[j] += search.rows[rows_level, enters, i] * search.inverse[level, i, j]
        if search.step[j] > 1e-9 and search.multiplier[level, j] < ratio * search.step[j]:
            leaves, ratio = j, search.multiplier[level, j] / search.step[j]
    if leaves == ABSENT:
        return False
    for j in range(size):
        if j != leaves:
            search.multiplier[level, j] = max(search.multiplier[level, j] - ratio * search.step[j], 0.0)
    search.multiplier[level, leaves] = ratio
    for i in range(size):
        search.inverse[level, i, leaves] /= search.step[leaves]
        for j in range(size):
            if j != leaves:
                search.inverse[level, i, j] -= search.inverse[level, i, leaves] * search.step[j]
    search.active[level, leaves] = enters
    return True


def is_refuted(search: TreeSearch, level: int, rows_level: int) -> bool:
    """Whether the sum of the active rows by their multipliers leaves no slack, whatever the rounding of these."""
    size, most = search.share.shape[1], 0.0
    for j in range(size):
        most += search.multiplier[level, j] * search.limits[rows_level, search.active[level, j]]
    if most >= -INFEASIBLE:
        return False
    for i in range(size):
        error = -1.0 if i == size - 1 else 0.0
        for j in range(size):
            error += search.multiplier[level, j] * search.rows[rows_level, search.active[level, j], i]
        most += abs(error)  # shares and slack are at most 1
    return most < -INFEASIBLE


def take_shares(search: TreeSearch, level: int) -> None:
    """The shares of the solution."""
    last = search.share.shape[1] - 1
    search.share[level, last] = 1.0
    for i in range(last):
        search.share[level, i] = search.point[level, i]
        search.share[level, last] -= search.point[level, i]


def key_of(search: TreeSearch) -> tuple[int, int]:
    """Two numbers, which tell nodes apart: what each machine serves, jobs numbered as they come."""
    first, second, num_jobs = *SEEDS, 0
    search.label[:] = ABSENT
    for side in range(2):
        for machine in range(len(search.left)):
            for i in range(search.placed[side]):
                if search.machine[side, i] == machine:
                    job = search.job[side, i]
                    if search.label[job] == ABSENT:
                        search.label[job], num_jobs = num_jobs, num_jobs + 1
                    word = (search.label[job] + 1) * MOST_STATES + search.origin[side, i] + 1
                    first, second = mixed(first, word, FACTORS[0]), mixed(second, word, FACTORS[1])
            first, second = mixed(first, 0, FACTORS[0]), mixed(second, 0, FACTORS[1])
    return first, second


def mixed(value: int, word: int, factor: int) -> int:
    """A number that depends on all words so far."""
    product = (value ^ word) * factor
    return product ^ (product >> SHIFT)
