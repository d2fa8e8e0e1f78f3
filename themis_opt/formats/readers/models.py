"""Descriptions of models as data-parallel training: ``config.json`` of Hugging Face, names and shapes of parameters.

The choices are those of ``themis-opt workload`` where it is given none; that command takes these files too, and has an
option for each choice.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from themis_opt.base.sources import Source
from themis_opt.formats.readers.parts import Machine, Part, Reader, only
from themis_opt.problem.instance import Instance
from themis_opt.workloads.hugging_face import model_of_config
from themis_opt.workloads.layers import TrainingModel
from themis_opt.workloads.listing import PARAMETER_LINE, model_of_listing
from themis_opt.workloads.parallelisms import make_workload
from themis_opt.workloads.setup import Setup
from themis_opt.workloads.timing import USUAL_RATE, Rate


def _is_config(source: Source) -> bool:
    return "model_type" in source.keys() and bool(source.keys() & {"architectures", "hidden_size", "n_embd", "d_model"})  # noqa: SIM118


def _is_listing(source: Source) -> bool:
    document = source.document
    if isinstance(document, dict):
        return bool(document) and all(isinstance(value, list) and "." in name for name, value in document.items())
    first = source.head.lstrip().partition("\n")[0]
    match = PARAMETER_LINE.fullmatch(first)
    return match is not None and "." in match[1]


def _reading(model_of: Callable[[Path], TrainingModel]) -> Callable[[Sequence[Source]], Part]:
    def read(sources: Sequence[Source]) -> Part:
        source = only(sources, "model")
        model = model_of(source.path)
        note = f"{model.title}: data parallel, 32 samples on each NPU, FP16; 'themis-opt workload' has more options."
        notes = (note, *model.assumptions)

        def trained(machine: Machine | None) -> Instance:
            if machine is None:
                rule = "is a model: name a file of the network too, or use 'themis-opt workload FILE --network'"
                raise source.error(rule)
            setup = Setup(network=machine.network, timing=Rate(int(machine.flops or USUAL_RATE)))
            return make_workload(model, model.layers(), setup, chunks=machine.chunks)

        return Part(workload=trained, notes=notes)

    return read


HUGGING_FACE = Reader("config.json of Hugging Face", ("json",), _is_config, _reading(model_of_config))
LISTING = Reader(
    "names and shapes of the parameters of a model", ("txt", "json"), _is_listing, _reading(model_of_listing)
)
