"""Networks of convolutions for images.

- ResNet: K. He et al., https://arxiv.org/abs/1512.03385, table 1; the step of two lies on the 3 x 3 convolution of a
  block, as in https://github.com/pytorch/vision/blob/main/torchvision/models/resnet.py ("v1.5").
- DenseNet-201: G. Huang et al., https://arxiv.org/abs/1608.06993, table 1, growth 32, as in torchvision: normalisation
  comes before each convolution, so that it has the channels of its input, and after the last block.
- Inception-v4: C. Szegedy et al., https://arxiv.org/abs/1602.07261, figures 3 to 9, for images of 299 x 299 pixels.
  Branches that run side by side stand one after the other, as one NPU computes them.
- VGG-16: K. Simonyan, A. Zisserman, https://arxiv.org/abs/1409.1556, configuration D, without batch normalisation.
  The fully connected part for CIFAR-10 sees 512 inputs and keeps both layers of 4096.

A layer is a convolution with its batch normalisation; operations of normalisation, pooling and addition do not count.
Images of ResNet and DenseNet have 224 x 224 pixels.
"""

from collections.abc import Sequence
from dataclasses import replace

from themis_opt.workloads.layers import Layer, convolution, convolution_between, linear, norms

EXPANSION = 4  # channels that leave a block, for each channel inside
STAGE_WIDTHS = (64, 128, 256, 512)  # channels inside the blocks of each of the four stages


def resnet(depths: tuple[int, int, int, int]) -> tuple[Layer, ...]:
    """Layers of a residual network of bottleneck blocks, with so many in each stage: (3, 4, 6, 3) is ResNet-50."""
    layers = [convolution("conv1", (3, 64), 7, 224, 2, norm=True)]
    channels, side = 64, 56
    for stage, (depth, width) in enumerate(zip(depths, STAGE_WIDTHS, strict=True), start=1):
        for block in range(depth):
            stride = 2 if stage > 1 and block == 0 else 1
            layers += _bottleneck(f"layer{stage}.{block}", channels, width, side, stride)
            channels, side = EXPANSION * width, side // stride
    return (*layers, linear("fc", channels, 1000))


def _bottleneck(name: str, channels: int, width: int, side: int, stride: int) -> list[Layer]:
    """Convolutions 1 x 1, 3 x 3 and 1 x 1, and one on the shortcut where shapes change."""
    wide = EXPANSION * width
    layers = [
        convolution(f"{name}.conv1", (channels, width), 1, side, 1, norm=True),
        convolution(f"{name}.conv2", (width, width), 3, side, stride, norm=True),
        convolution(f"{name}.conv3", (width, wide), 1, side // stride, 1, norm=True),
    ]
    if channels != wide:
        layers.append(convolution(f"{name}.downsample", (channels, wide), 1, side, stride, norm=True))
    return layers


GROWTH_RATE, BOTTLENECK = 32, 4
DENSE_BLOCKS = (6, 12, 48, 32)


def densenet_201() -> tuple[Layer, ...]:
    """Layers of DenseNet-201."""
    layers = [convolution("conv0", (3, 2 * GROWTH_RATE), 7, 224, 2, norm=True)]
    channels, side = 2 * GROWTH_RATE, 56
    for block, depth in enumerate(DENSE_BLOCKS, start=1):
        for number in range(1, depth + 1):
            name = f"block{block}.{number}"
            layers.append(_normalised(f"{name}.conv1", (channels, BOTTLENECK * GROWTH_RATE), 1, side))
            layers.append(_normalised(f"{name}.conv2", (BOTTLENECK * GROWTH_RATE, GROWTH_RATE), 3, side))
            channels += GROWTH_RATE
        if block < len(DENSE_BLOCKS):
            layers.append(_normalised(f"transition{block}.conv", (channels, channels // 2), 1, side))
            channels, side = channels // 2, side // 2
    last = linear("classifier", channels, 1000)
    return (*layers, replace(last, parameters=(*norms(channels), *last.parameters)))


def _normalised(name: str, channels: tuple[int, int], kernel: int, side: int) -> Layer:
    """A convolution with the normalisation of its input."""
    layer = convolution(name, channels, kernel, side, 1, norm=True)
    return replace(layer, parameters=(*norms(channels[0]), layer.parameters[0]))


VGG_STAGES = (
    (64, 2),
    (128, 2),
    (256, 3),
    (512, 3),
    (512, 3),
)  # channels and convolutions; pooling halves the side after
FULLY_CONNECTED_WIDTH = 4096


def vgg16(side: int, classes: int) -> tuple[Layer, ...]:
    """Layers of VGG-16 for images whose side in pixels is a multiple of 32."""
    layers: list[Layer] = []
    channels = 3
    for stage, (width, depth) in enumerate(VGG_STAGES, start=1):
        for number in range(1, depth + 1):
            layers.append(convolution(f"conv{stage}_{number}", (channels, width), 3, side, 1, norm=False))
            channels = width
        side //= 2
    sizes = (channels * side**2, FULLY_CONNECTED_WIDTH, FULLY_CONNECTED_WIDTH, classes)
    layers += [linear(f"fc{k}", sizes[k - 6], sizes[k - 5]) for k in (6, 7, 8)]
    return tuple(layers)


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
