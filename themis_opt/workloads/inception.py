"""Inception-v4, for images of 299 x 299 pixels.

Architecture: C. Szegedy et al., https://arxiv.org/abs/1602.07261, figures 3 to 9, with batch normalisation after every
convolution.  Branches that run side by side stand one after the other, as one NPU computes them.
"""

from collections.abc import Sequence

from themis_opt.workloads.layers import Layer, convolution_between, linear

Kernel = tuple[int, int]
Convolution = tuple[int, Kernel]  # channels of the output of a convolution, and its kernel
ONE, THREE, WIDE, HIGH = (1, 1), (3, 3), (1, 7), (7, 1)

BLOCK_A: Sequence[Sequence[Convolution]] = (
    ((96, ONE),),
    ((64, ONE), (96, THREE)),
    ((64, ONE), (96, THREE), (96, THREE)),
    ((96, ONE),),
)
BLOCK_B: Sequence[Sequence[Convolution]] = (
    ((384, ONE),),
    ((192, ONE), (224, WIDE), (256, HIGH)),
    ((192, ONE), (192, HIGH), (224, WIDE), (224, HIGH), (256, WIDE)),
    ((128, ONE),),
)


def inception_v4() -> tuple[Layer, ...]:
    """Layers of Inception-v4."""
    layers = _stem()
    for number in range(1, 5):
        layers += _branches(f"a{number}", 384, 35, BLOCK_A)
    layers += [convolution_between("reduction_a.1", (384, 384), THREE, 35, 17)]
    layers += _branch("reduction_a.2", 384, 35, ((192, ONE), (224, THREE)))
    layers += [convolution_between("reduction_a.2.3", (224, 256), THREE, 35, 17)]
    for number in range(1, 8):
        layers += _branches(f"b{number}", 1024, 17, BLOCK_B)
    layers += _branch("reduction_b.1", 1024, 17, ((192, ONE),))
    layers += [convolution_between("reduction_b.1.2", (192, 192), THREE, 17, 8)]
    layers += _branch("reduction_b.2", 1024, 17, ((256, ONE), (256, WIDE), (320, HIGH)))
    layers += [convolution_between("reduction_b.2.4", (320, 320), THREE, 17, 8)]
    for number in range(1, 4):
        layers += _block_c(f"c{number}")
    return (*layers, linear("classifier", 1536, 1000))


def _stem() -> list[Layer]:
    layers = [
        convolution_between("stem.1", (3, 32), THREE, 299, 149),
        convolution_between("stem.2", (32, 32), THREE, 149, 147),
        convolution_between("stem.3", (32, 64), THREE, 147, 147),
        convolution_between("stem.4", (64, 96), THREE, 147, 73),
    ]
    layers += [*_branch("stem.5", 160, 73, ((64, ONE),)), convolution_between("stem.5.2", (64, 96), THREE, 73, 71)]
    layers += _branch("stem.6", 160, 73, ((64, ONE), (64, WIDE), (64, HIGH)))
    return [
        *layers,
        convolution_between("stem.6.4", (64, 96), THREE, 73, 71),
        convolution_between("stem.7", (192, 192), THREE, 71, 35),
    ]


def _block_c(name: str) -> list[Layer]:
    """Two of its branches fork at their ends."""
    ends = (1, 3), (3, 1)
    layers = _branch(f"{name}.1", 1536, 8, ((256, ONE),)) + _branch(f"{name}.2", 1536, 8, ((384, ONE),))
    layers += [
        convolution_between(f"{name}.2.{end}", (384, 256), kernel, 8, 8) for end, kernel in enumerate(ends, start=2)
    ]
    layers += _branch(f"{name}.3", 1536, 8, ((384, ONE), (448, (3, 1)), (512, (1, 3))))
    layers += [
        convolution_between(f"{name}.3.{end}", (512, 256), kernel, 8, 8) for end, kernel in enumerate(ends, start=4)
    ]
    return layers + _branch(f"{name}.4", 1536, 8, ((256, ONE),))


def _branches(name: str, channels: int, side: int, branches: Sequence[Sequence[Convolution]]) -> list[Layer]:
    return [
        layer
        for number, steps in enumerate(branches, start=1)
        for layer in _branch(f"{name}.{number}", channels, side, steps)
    ]


def _branch(name: str, channels: int, side: int, steps: Sequence[Convolution]) -> list[Layer]:
    """Convolutions one after the other that keep the side."""
    layers = []
    for number, (width, kernel) in enumerate(steps, start=1):
        layers.append(convolution_between(f"{name}.{number}", (channels, width), kernel, side, side))
        channels = width
    return layers
