"""Two ranks exchange messages in batches, as GPUs do, here of gloo; rank 0 prints what it got."""

import os
import sys

import torch
from torch import distributed

from themis_opt.runtime.links import Incoming, Outgoing
from themis_opt.runtime.transports.torch import DeviceLink

COUNT = 3


def main() -> None:
    """Be both ranks."""
    rank = 0 if os.fork() else 1
    store = distributed.FileStore(sys.argv[1], 2)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    link, got, peer = DeviceLink(distributed.group.WORLD, torch.device("cpu")), [], 1 - rank
    frames = [memoryview(bytearray([10 * rank + number] * (number + 1))) for number in range(COUNT)]
    outgoing = [Outgoing(peer, 0.0, lambda frame=frame: frame) for frame in frames]
    incoming = [
        Incoming(peer, number + 1, 1, lambda _: None, lambda frame: got.append(bytes(frame))) for number in range(COUNT)
    ]
    link.exchange(outgoing, incoming)
    link.exchange((), ())
    if rank == 0:
        print([list(message) for message in got], flush=True)
    distributed.barrier()
    os._exit(0)


if __name__ == "__main__":
    main()
