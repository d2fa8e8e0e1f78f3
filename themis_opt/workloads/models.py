"""The models by name."""

import tomllib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from themis_opt.base.errors import InputError, suggestion
from themis_opt.base.registries import Registry
from themis_opt.workloads.dlrm import dlrm_mlperf, dlrm_totals
from themis_opt.workloads.gnmt import gnmt
from themis_opt.workloads.hugging_face import SHAPES, model_of_config, model_of_numbers
from themis_opt.workloads.image_models import densenet_201, inception_v4, resnet, vgg16
from themis_opt.workloads.layers import Layer, TrainingModel, count, macs
from themis_opt.workloads.listing import model_of_listing

NETWORKS: Mapping[str, Callable[..., tuple[Layer, ...]]] = {
    make.__name__: make for make in (resnet, densenet_201, inception_v4, vgg16, gnmt, dlrm_mlperf, dlrm_totals)
}
"""The networks that are no :data:`~themis_opt.workloads.hugging_face.SHAPES`."""


def _model(title: str, source: str, network: str, sizes: Mapping[str, Any], sequence: int | None) -> TrainingModel:
    if network not in SHAPES:
        return TrainingModel(title, source, partial(NETWORKS[network], **sizes), sequence)
    shape, make = SHAPES[network]
    return TrainingModel(title, source, partial(make, TypeAdapter(shape).validate_python(sizes)), sequence)


_ROWS = tomllib.loads(Path(__file__).with_name("models.toml").read_text(encoding="utf-8"))
MODELS: Mapping[str, TrainingModel] = Registry(
    "themis_opt.models",
    {name: _model(**{"sizes": {}, "sequence": None} | row) for name, row in _ROWS.items()},
)


def model_rows() -> list[dict[str, Any]]:
    """One row for each model: layers, parameters, operations of the forward pass of one sample, source."""
    rows = []
    for name, model in MODELS.items():
        layers = model.layers()
        rows.append(
            {
                "model": name,
                "layers": len(layers),
                "parameters": count(layers),
                "weights": count(layers, ("weight",)),
                "gmacs": macs(layers) / 1e9,
                "tokens": model.sequence,
                "source": model.source,
            }
        )
    return rows


def find_model(name: str) -> TrainingModel:
    """The model of a name, of numbers such as ``transformer:layers=32:hidden=4096``, or of a file.

    Files are a ``config.json``, or a text of the names and shapes of parameters. Raises InputError if there is none.
    """
    if name in MODELS:
        return MODELS[name]
    head, *settings = name.split(":")
    if head == "transformer":
        return model_of_numbers(settings)
    ending = name.removesuffix(".gz")
    if ending.endswith(".json"):
        return model_of_config(Path(name))
    if ending.endswith(".txt"):
        return model_of_listing(Path(name))
    known = f"{', '.join(MODELS)}, transformer:layers=..:hidden=.. a config.json or a list of shapes (.txt)"
    raise InputError(f"unknown model; use one of {known}{suggestion(name, MODELS)}", field="MODEL", value=name)
