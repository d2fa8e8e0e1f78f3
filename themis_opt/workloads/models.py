"""The models by name."""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from themis_opt.base.errors import InputError
from themis_opt.workloads.dlrm import dlrm_mlperf, dlrm_totals
from themis_opt.workloads.gnmt import gnmt
from themis_opt.workloads.layers import TrainingModel
from themis_opt.workloads.resnet import resnet
from themis_opt.workloads.transformers import BERT_BASE, BERT_LARGE, GPT_3, ONE_TRILLION, transformer
from themis_opt.workloads.vgg import vgg16

_RESNET = "https://arxiv.org/abs/1512.03385, torchvision v1.5"
_VGG = "https://arxiv.org/abs/1409.1556"
_BERT = "https://arxiv.org/abs/1810.04805"
_THEMIS = "https://arxiv.org/abs/2110.04478"

MODELS: Mapping[str, TrainingModel] = MappingProxyType(
    {
        "resnet-50": TrainingModel("ResNet-50", _RESNET, partial(resnet, (3, 4, 6, 3))),
        "resnet-101": TrainingModel("ResNet-101", _RESNET, partial(resnet, (3, 4, 23, 3))),
        "resnet-152": TrainingModel("ResNet-152", _RESNET, partial(resnet, (3, 8, 36, 3))),
        "vgg-16": TrainingModel("VGG-16 (ImageNet)", _VGG, partial(vgg16, 224, 1000)),
        "vgg-16-cifar": TrainingModel("VGG-16 (CIFAR-10)", _VGG, partial(vgg16, 32, 10)),
        "gnmt": TrainingModel("GNMT", "https://arxiv.org/abs/1609.08144, NVIDIA v2", gnmt, 50),
        "dlrm-mlperf": TrainingModel("DLRM (MLPerf)", "https://arxiv.org/abs/1906.00091", dlrm_mlperf),
        "dlrm-medium": TrainingModel("DLRM (medium)", _THEMIS, partial(dlrm_totals, 57_411_584, 4096)),
        "dlrm-large": TrainingModel("DLRM (large)", _THEMIS, partial(dlrm_totals, 664_847_184, 98_304)),
        "bert-base": TrainingModel("BERT-base", _BERT, partial(transformer, BERT_BASE), 512),
        "bert-large": TrainingModel("BERT-large", _BERT, partial(transformer, BERT_LARGE), 512),
        "gpt-3": TrainingModel("GPT-3", "https://arxiv.org/abs/2005.14165", partial(transformer, GPT_3), 2048),
        "transformer-1t": TrainingModel(
            "Transformer-1T", "https://arxiv.org/abs/2104.04473", partial(transformer, ONE_TRILLION), 2048
        ),
    }
)


def find_model(name: str) -> TrainingModel:
    """The model of that name.

    Raises
    ------
    InputError
        If there is none.
    """
    if name not in MODELS:
        raise InputError(f"unknown model; use one of {', '.join(MODELS)}", field="MODEL", value=name)
    return MODELS[name]
