"""The models by name."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from themis_opt.base.errors import InputError, suggestion
from themis_opt.base.registries import Registry
from themis_opt.workloads import decoders
from themis_opt.workloads.dlrm import dlrm_mlperf, dlrm_totals
from themis_opt.workloads.gnmt import gnmt
from themis_opt.workloads.hugging_face import model_of_config, model_of_numbers
from themis_opt.workloads.image_models import densenet_201, inception_v4, resnet, vgg16
from themis_opt.workloads.layers import TrainingModel
from themis_opt.workloads.listing import model_of_listing
from themis_opt.workloads.transformers import BERT_BASE, BERT_LARGE, GPT_3, ONE_TRILLION, transformer

_RESNET = "https://arxiv.org/abs/1512.03385, torchvision v1.5"
_DENSENET = "https://arxiv.org/abs/1608.06993, torchvision"
_VGG = "https://arxiv.org/abs/1409.1556"
_BERT = "https://arxiv.org/abs/1810.04805"
_THEMIS = "https://arxiv.org/abs/2110.04478"
_LLAMA = "https://arxiv.org/abs/2407.21783"
_MIXTRAL, _DEEPSEEK = "https://arxiv.org/abs/2401.04088", "https://arxiv.org/abs/2412.19437"
_VIT = "https://arxiv.org/abs/2010.11929"

MODELS: Mapping[str, TrainingModel] = Registry(
    "themis_opt.models",
    {
        "resnet-50": TrainingModel("ResNet-50", _RESNET, partial(resnet, (3, 4, 6, 3))),
        "resnet-101": TrainingModel("ResNet-101", _RESNET, partial(resnet, (3, 4, 23, 3))),
        "resnet-152": TrainingModel("ResNet-152", _RESNET, partial(resnet, (3, 8, 36, 3))),
        "densenet-201": TrainingModel("DenseNet-201", _DENSENET, densenet_201),
        "inception-v4": TrainingModel("Inception-v4", "https://arxiv.org/abs/1602.07261", inception_v4),
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
        "llama-3-8b": TrainingModel("Llama 3 8B", _LLAMA, partial(decoders.decoder, decoders.LLAMA_3_8B), 8192),
        "llama-3-70b": TrainingModel("Llama 3 70B", _LLAMA, partial(decoders.decoder, decoders.LLAMA_3_70B), 8192),
        "llama-3-405b": TrainingModel("Llama 3 405B", _LLAMA, partial(decoders.decoder, decoders.LLAMA_3_405B), 8192),
        "mixtral-8x7b": TrainingModel("Mixtral 8x7B", _MIXTRAL, partial(decoders.decoder, decoders.MIXTRAL), 4096),
        "deepseek-v3": TrainingModel("DeepSeek-V3", _DEEPSEEK, partial(decoders.decoder, decoders.DEEPSEEK_V3), 4096),
        "vit-b-16": TrainingModel("ViT-B/16", _VIT, partial(decoders.vision_transformer, decoders.VIT_B)),
        "vit-l-16": TrainingModel("ViT-L/16", _VIT, partial(decoders.vision_transformer, decoders.VIT_L)),
        "vit-h-14": TrainingModel("ViT-H/14", _VIT, partial(decoders.vision_transformer, decoders.VIT_H)),
    },
)


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
