"""The policy law: chunks whose number, sizes, paths and sequences are a closed form (docs/law.md)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from formulations.limits import PROVEN_GAP
from themis_opt.base.arrays import IntArray
from themis_opt.policies.chunk_climb import climbed_block
from themis_opt.policies.chunk_law import ChunkBlock, LawDimension, closed_form, equal_block, makespan, whole_sizes
from themis_opt.policies.hourglass.policy import Hourglass
from themis_opt.policies.portions import MOST_LOTS, Portions
from themis_opt.problem.cost import bytes_sent, check_clock, fixed_lag, fixed_occupancy, variable_occupancy
from themis_opt.problem.exchanges import Exchange
from themis_opt.problem.instance import Instance
from themis_opt.schedules.plan import Chunks, Plan, has_launches
from themis_opt.solving.sizing import granule, with_sizes

FEW_PATHS = 8  # that are tried for a closed form where a climb follows
MOST_STARTED = 3  # equal chunks to climb from, beside the shipped starts


@dataclass(frozen=True)
class Law:
    """The blocks of :mod:`themis_opt.policies.chunk_law`, without a linear programme.

    Where more than two dimensions have no such block that is solid, portions of theorem 4 are the next choice.  Where
    chunks cost something, or no solid block is known, a climb changes chunks that suited random networks.

    Several collectives, all-to-alls, shared links and compute have no such law; there the policy is that of hourglass
    with free sizes.
    """

    def __call__(self, instance: Instance) -> Plan:
        """Plan `instance`. Raises InputError if the clock is too small for it."""
        check_clock(instance)
        if not has_law(instance):
            return Hourglass("free")(instance)
        (exchange,) = instance.exchanges
        phases = len(exchange.kind.rule.phases)
        block = _block(network_of(instance, exchange), phases, exchange.size, exchange.max_chunks)
        return _plan(instance, exchange, block)


def _block(network: Sequence[LawDimension], phases: int, size: int, most_chunks: int) -> ChunkBlock:
    """The closed form, portions or a climb."""
    has_costs = any(dimension.fixed or dimension.lag for dimension in network)
    few = 2 * len(network) if has_costs and len(network) > 2 else most_chunks  # not one more pair, if a climb follows
    plain = [dimension._replace(fixed=0, lag=0) for dimension in network]
    equal = equal_block(network, phases, size, min(MOST_STARTED, most_chunks))
    block = closed_form(plain, phases, min(few, most_chunks), FEW_PATHS if has_costs else None) or equal
    times = [makespan(dimensions, block, phases, size) for dimensions in (network, plain)]
    if block.is_solid and times[0] <= times[1] * (1 + PROVEN_GAP):
        return block
    if not has_costs:
        portions = Portions(network, min(MOST_LOTS, most_chunks)).block(phases) if len(network) > 2 else block
        if portions:
            return portions
    climbed = climbed_block(network, phases, size, equal if has_costs else block, most_chunks)
    return min(block, climbed, key=lambda block: makespan(network, block, phases, size))


def has_law(instance: Instance) -> bool:
    """Whether the only collective of an instance opens or closes with most of its bytes, and shares no link."""
    rules = [exchange.kind.rule for exchange in instance.exchanges]
    is_alone = len(rules) == 1 and not has_launches(instance) and instance.ports.is_plain
    return is_alone and (rules[0].opens or rules[0].closes)


def network_of(instance: Instance, exchange: Exchange) -> tuple[LawDimension, ...]:
    """The dimensions that a collective spans, with the times in picoseconds of its first phase."""
    phase, sizes = exchange.kind.rule.phases[0], instance.fabric.sizes
    dimensions = []
    for k in exchange.span:
        sent = bytes_sent(instance, phase, k, np.array(float(exchange.size)), np.array(sizes[k]))
        seconds = float(variable_occupancy(instance, phase, k, sent, whole_packets=False))
        byte_time = seconds / exchange.size * sizes[k] / (sizes[k] - 1)
        fixed, lag = int(fixed_occupancy(instance, phase, k)), int(fixed_lag(instance, phase, k))
        dimensions.append(LawDimension(int(sizes[k]), byte_time, fixed, lag))
    return tuple(dimensions)


def _plan(instance: Instance, exchange: Exchange, block: ChunkBlock) -> Plan:
    """The plan of a block: sizes in whole elements, and every sequence enforced; an all-gather is it backwards."""
    rule, span = exchange.kind.rule, np.array(exchange.span)
    paths = np.array([chunk.path for chunk in block.chunks])
    if not rule.opens:
        paths = paths[:, ::-1]
    sequences: list[IntArray] = [np.zeros(0, dtype=np.int64)] * instance.num_resources
    for local, order in block.orders.items():
        number, phase = np.array(order if rule.opens else order[::-1]).T
        place = np.argsort(paths, axis=1, kind="stable").reshape(*paths.shape[:1], len(span), -1)
        sequences[span[local]] = number * paths.shape[1] + place[number, local, phase]
    plan = Plan((Chunks(np.ones(len(paths), dtype=np.int64), span[paths]),), sequences=tuple(sequences))
    sizes = whole_sizes(block, exchange.size, granule(instance, exchange))
    return with_sizes(plan, [np.array(sizes, dtype=np.int64)])
