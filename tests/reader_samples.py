"""Small files of other tools, written for these tests from what is known of their formats, by name of the format."""

import json

RING_16 = "topology: [ Ring ]\nnpus_count: [ 16 ]\nbandwidth: [ 50.0 ]  # GB/s\nlatency: [ 500.0 ]  # ns\n"
THREE_LEVELS = (
    "topology: [ Ring, FullyConnected, Switch ]\nnpus_count: [ 4, 8, 2 ]\n"
    "bandwidth: [ 200.0, 25.0, 12.5 ]\nlatency: [ 20.0, 100, 500.5 ]\n"
)
SYSTEM = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 4,
    "all-reduce-implementation": ["ring"],
    "all-gather-implementation": ["ring"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 50,
    "boost-mode": 0,
}

SAMPLES: dict[str, dict[str, str | bytes]] = {
    "json": {},
    "astra-sim-network": {"ring.yml": RING_16, "levels.yml": THREE_LEVELS},
    "astra-sim-system": {"system.json": json.dumps(SYSTEM)},
}
"""Files by name of the format and of the file; of each format at least one."""

COMPANIONS: dict[str, dict[str, str]] = {
    "astra-sim-system": {"network.yml": RING_16},
}
"""What files of a format need beside them to make a whole problem; recognized as what they are."""
