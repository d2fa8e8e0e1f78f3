"""Links over PyTorch (extra ``torch``): messages of NCCL where every rank has a separate GPU, else of gloo."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from time import monotonic, sleep
from typing import Any

import numpy as np
import torch
from torch import distributed

from themis_opt.runtime.links import Address, ChannelKey, Incoming, Outgoing, RankFailure


class TorchLink:
    """A link on a process group of the ranks of a dimension.

    Requests of gloo finish only where somebody waits for them, so that this thread waits for one after another.
    """

    def __init__(self, group: Any, patience: float) -> None:
        self._group, self._patience = group, patience

    def exchange(self, outgoing: Sequence[Outgoing], incoming: Sequence[Incoming]) -> None:
        """Send and receive; see :class:`~themis_opt.runtime.links.Link`."""
        frames = [np.empty(message.size, np.uint8) for message in incoming]
        receives = [
            distributed.irecv(torch.from_numpy(frame), message.peer, group=self._group)
            for frame, message in zip(frames, incoming, strict=True)
        ]
        sends = []
        for message in outgoing:
            sleep(max(message.due - monotonic(), 0.0))
            tensor = torch.frombuffer(message.pack(), dtype=torch.uint8)
            sends.append((message.peer, tensor, distributed.isend(tensor, message.peer, group=self._group)))
        for frame, expected, request in zip(frames, incoming, receives, strict=True):
            self._wait(request, expected.peer)
            expected.check(frame.data)
            expected.unpack(frame.data)
        for peer, _, request in sends:
            self._wait(request, peer)

    def _wait(self, request: Any, peer: int) -> None:
        try:
            request.wait(timedelta(seconds=self._patience))
        except RuntimeError as error:
            raise RankFailure(peer, f"does not answer gloo ({str(error).splitlines()[0][:120]})") from None


class DeviceLink:
    """A link on a process group of GPUs: the messages of a step are one batch, which leaves when the last one is due.

    NCCL runs what two ranks send each other in turn, so that messages that were not batched would wait for each other.

    `device`: where messages are while they are under way; buffers stay in the memory of the host.
    """

    def __init__(self, group: Any, device: torch.device) -> None:
        self._group, self._device = group, device

    def exchange(self, outgoing: Sequence[Outgoing], incoming: Sequence[Incoming]) -> None:
        """Send and receive; see :class:`~themis_opt.runtime.links.Link`."""
        received = [torch.empty(message.size, dtype=torch.uint8, device=self._device) for message in incoming]
        sleep(max(max((message.due for message in outgoing), default=0.0) - monotonic(), 0.0))
        sent = [torch.frombuffer(message.pack(), dtype=torch.uint8).to(self._device) for message in outgoing]
        operations = [self._operation(distributed.isend, *pair) for pair in zip(sent, outgoing, strict=True)]
        operations += [self._operation(distributed.irecv, *pair) for pair in zip(received, incoming, strict=True)]
        for request in distributed.batch_isend_irecv(operations) if operations else ():
            request.wait()
        for tensor, expected in zip(received, incoming, strict=True):
            frame = tensor.cpu().numpy().data  # waits for the device
            expected.check(frame)
            expected.unpack(frame)

    def _operation(self, what: Any, tensor: torch.Tensor, message: Outgoing | Incoming) -> Any:
        return distributed.P2POp(what, tensor, message.peer, group=self._group)


def backend(num_ranks_here: int) -> str:
    """``nccl`` if each of so many ranks on this machine has a separate GPU, which NCCL asks for; else ``gloo``."""
    fits = torch.cuda.is_available() and torch.cuda.device_count() >= num_ranks_here
    return "nccl" if fits and distributed.is_nccl_available() else "gloo"


class TorchEndpoint:
    """One rank; that of number 0 holds the store through which the others find each other.

    `token`: groups have names that begin with it.
    `host`: address of the store.
    """

    def __init__(self, rank: int, token: str, host: str) -> None:
        self._rank, self._token = rank, token
        self._store = distributed.TCPStore(host, 0, is_master=True, wait_for_workers=False) if rank == 0 else None
        self.address: Address = (host, self._store.port if self._store else 0)

    def connect(
        self, channels: Mapping[ChannelKey, Sequence[int]], addresses: Sequence[Address], patience: float
    ) -> dict[ChannelKey, "TorchLink | DeviceLink"]:
        """A process group for every channel; see :class:`~themis_opt.runtime.links.Endpoint`."""
        host, port = addresses[0]
        wait = timedelta(seconds=patience)
        store = self._store or distributed.TCPStore(host, port, is_master=False, timeout=wait)
        store = distributed.PrefixStore(self._token, store)
        here = [rank for rank, (host, _) in enumerate(addresses) if host == addresses[self._rank][0]]
        name = backend(len(here))
        distributed.init_process_group(name, store=store, rank=self._rank, world_size=len(addresses), timeout=wait)
        groups = {
            key: distributed.new_group(list(peers), use_local_synchronization=True)
            for key, peers in sorted(channels.items())
        }
        if name == "gloo":
            return {key: TorchLink(group, patience) for key, group in groups.items()}
        device = torch.device("cuda", here.index(self._rank))
        torch.cuda.set_device(device)
        return {key: DeviceLink(group, device) for key, group in groups.items()}
