"""Models by the names and shapes of their parameters, as ``named_parameters`` and ``state_dict`` of PyTorch list them.

The parameters of one module are one layer: those of `layer1.0.conv1.weight` and `layer1.0.conv1.bias` together.  What
names and shapes do not say is assumed: a weight does two operations per sample, an embedding none, and the layers run
in the order of the list.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from themis_opt.base.errors import InputError
from themis_opt.base.sources import Source
from themis_opt.problem.documents import errors_of
from themis_opt.problem.fields import MAX_BYTES
from themis_opt.workloads.layers import Layer, LayerKind, Parameter, Role, TrainingModel

BUFFERS = ("running_mean", "running_var", "num_batches_tracked")  # what a module keeps without training it
MAX_PARAMETERS = 20_000  # parameters of a listing
PARAMETER_LINE = re.compile(
    r"\s*[\"']?([\w.\-/]{1,500})[\"']?\s*[:=,]?\s*(?:torch\.Size\()?[\[(]([\d,\s]{0,100})[\])]\)?[,;\s]*\S{0,40}\s*"
)
"""A name and a shape, as ``print(name, tensor.shape)`` and ``print(name, tuple(tensor.shape))`` write them."""


def model_of_module(module: Any, title: str = "") -> TrainingModel:
    """The model of a ``torch.nn.Module``, or of anything else that has ``named_parameters``.

    Raises InputError if it has no parameters.
    """
    shapes = {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
    return model_of_shapes(shapes, title or type(module).__name__)


def model_of_listing(path: Path) -> TrainingModel:
    """The model of a file that lists names and shapes: lines of text, or a JSON object of lists.

    Raises InputError if a line is no name with a shape.
    """
    source = Source(path)
    with errors_of(path):
        return model_of_shapes(listed(source), path.name.partition(".")[0])


def listed(source: Source) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a file. Raises InputError if a line is none, or a name stands twice."""
    if source.head.lstrip().startswith("{"):
        document = source.json_object()
        return {name: _shape(source, shape, name) for name, shape in document.items()}
    shapes: dict[str, tuple[int, ...]] = {}
    for number, line in source.lines:
        match = PARAMETER_LINE.fullmatch(line) if len(line) <= 2000 else None
        if match is None:
            raise source.error(
                "must be a name and a shape, such as fc.weight (10, 512)", f"line {number}", line.strip()
            )
        if match[1] in shapes:
            raise source.error("stands twice", f"line {number}", match[1])
        shapes[match[1]] = tuple(int(word[:16]) for word in re.findall(r"\d+", match[2]))
    return shapes


def _shape(source: Source, shape: object, name: str) -> tuple[int, ...]:
    if not isinstance(shape, list):
        raise source.error("must be a list of sizes", name, shape)
    return tuple(source.whole(size, f"{name}[{k}]") for k, size in enumerate(shape))


def model_of_shapes(shapes: Mapping[str, Sequence[int]], title: str) -> TrainingModel:
    """The model of parameters with some names and shapes.

    Raises InputError if there are none, too many, or one has no elements.

    `shapes`: by name, in the order of the layers; buffers of batch normalisation are left out.
    """
    kept = {name: tuple(shape) for name, shape in shapes.items() if name.rpartition(".")[2] not in BUFFERS}
    if not kept or len(kept) > MAX_PARAMETERS:
        raise InputError(f"must list 1 to {MAX_PARAMETERS} parameters", field="parameters", value=len(kept))
    modules: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, shape in kept.items():
        if not 0 < math.prod(shape) <= MAX_BYTES // 8:
            raise InputError(f"must have 1 to {MAX_BYTES // 8} elements", field=name, value=shape)
        module, _, last = name.rpartition(".")
        modules.setdefault(module or name, {})[last] = shape
    layers = tuple(_layer(module, shapes) for module, shapes in modules.items())
    return TrainingModel(title, "names and shapes of its parameters", lambda: layers)


def _layer(name: str, shapes: Mapping[str, tuple[int, ...]]) -> Layer:
    parameters = tuple(Parameter(place, math.prod(shape), _role(place, shape)) for place, shape in shapes.items())
    largest = max(shapes.values(), key=math.prod)
    outputs, inputs = (largest[0], math.prod(largest[1:2])) if largest else (1, 1)
    kind: LayerKind = "convolution" if len(largest) > 2 else "linear"
    if "embed" in name.lower():
        kind = "embedding"
    weights = sum(parameter.elements for parameter in parameters if parameter.role == "weight")
    return Layer(name, kind, parameters, 0 if kind == "embedding" else 2 * weights, inputs, outputs)


def _role(name: str, shape: tuple[int, ...]) -> Role:
    if "bias" in name:
        return "bias"
    return "weight" if len(shape) > 1 else "norm"
