"""Layer tables: their totals are the published ones."""

import pytest

from themis_opt.base.errors import InputError
from themis_opt.workloads.layers import Layer, count, macs
from themis_opt.workloads.models import MODELS


def of_kind(name: str, *kinds: str) -> tuple[Layer, ...]:
    return tuple(layer for layer in MODELS[name].layers() if layer.kind in kinds)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("resnet-50", 25_557_032),
        ("densenet-201", 20_013_928),
        ("inception-v4", 42_679_816),
        ("resnet-101", 44_549_160),
        ("resnet-152", 60_192_808),
        ("vgg-16", 138_357_544),
        ("bert-base", 109_482_240),
        ("bert-large", 335_141_888),
    ],
)
def test_parameters_are_those_of_the_reference_implementation(name: str, parameters: int) -> None:
    assert count(MODELS[name].layers()) == parameters


@pytest.mark.parametrize(
    ("name", "kind", "parameters"),
    [
        ("vgg-16", "convolution", 14_714_688),
        ("vgg-16", "linear", 123_642_856),
        ("vgg-16-cifar", "convolution", 14_714_688),
        ("vgg-16-cifar", "linear", 18_923_530),
    ],
)
def test_parameters_of_the_parts_of_vgg(name: str, kind: str, parameters: int) -> None:
    assert count(of_kind(name, kind)) == parameters


@pytest.mark.parametrize(
    ("name", "kinds", "gmacs"),
    [
        ("resnet-50", ("convolution", "linear"), 4.089),
        ("densenet-201", ("convolution", "linear"), 4.291),
        ("resnet-101", ("convolution", "linear"), 7.801),
        ("resnet-152", ("convolution", "linear"), 11.514),
        ("vgg-16", ("convolution",), 15.347),
        ("vgg-16-cifar", ("convolution",), 0.313),
    ],
)
def test_operations_of_one_image(name: str, kinds: tuple[str, ...], gmacs: float) -> None:
    assert macs(of_kind(name, *kinds)) / 1e9 == pytest.approx(gmacs, abs=5e-4)


@pytest.mark.parametrize(
    ("name", "billions"), [("gnmt", 0.1607), ("gpt-3", 174.6), ("transformer-1t", 1008.0), ("dlrm-mlperf", 24.04)]
)
def test_parameters_are_the_published_round_figures(name: str, billions: float) -> None:
    assert count(MODELS[name].layers()) / 1e9 == pytest.approx(billions, rel=5e-4)


@pytest.mark.parametrize(("name", "size"), [("dlrm-medium", 114_823_168), ("dlrm-large", 1_329_694_368)])
def test_perceptrons_of_dlrm_have_the_bytes_of_the_themis_paper(name: str, size: int) -> None:
    assert 2 * count(of_kind(name, "linear")) == size


@pytest.mark.parametrize(("name", "size"), [("dlrm-medium", 4_194_304), ("dlrm-large", 100_663_296)])
def test_exchange_of_dlrm_has_the_bytes_of_the_themis_paper_for_its_batch(name: str, size: int) -> None:
    (table,) = of_kind(name, "table")
    assert 512 * 2 * table.outputs == size


def test_a_layer_of_bert_large_has_the_published_parameters() -> None:
    layers = [layer for layer in MODELS["bert-large"].layers() if layer.name.startswith("layer7.")]
    assert count(layers) == 12_596_224


def test_operations_of_a_transformer_layer_follow_the_closed_form() -> None:
    sequence, hidden = 1024, 12_288
    layers = [x for x in MODELS["gpt-3"].layers(sequence) if x.name.startswith("layer0.")]
    assert sum(x.flops for x in layers) == 24 * sequence * hidden**2 + 4 * sequence**2 * hidden


def test_images_are_no_sequences() -> None:
    with pytest.raises(InputError, match="does not read sequences"):
        MODELS["resnet-50"].layers(128)


def test_a_sequence_has_a_token() -> None:
    with pytest.raises(InputError, match="1 or more"):
        MODELS["bert-base"].layers(0)
