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

import tomllib
from dataclasses import replace
from pathlib import Path

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
    layer = convolution(name, channels, kernel, side, 1, norm=True)
    return replace(layer, parameters=(*norms(channels[0]), layer.parameters[0]))


# Channels and convolutions; pooling halves the side after
VGG_STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
FULLY_CONNECTED_WIDTH = 4096  # outputs of the layers, by the paper


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


def inception_v4() -> tuple[Layer, ...]:
    """Layers of Inception-v4."""
    table = tomllib.loads(Path(__file__).with_name("inception_v4.toml").read_text(encoding="utf-8"))
    layers = [
        convolution_between(f"{name}.{step}", (inputs, outputs), (rows, columns), side, after)
        for block in table["blocks"]
        for name in block["names"]
        for step, inputs, outputs, (rows, columns), side, after in block["convolutions"]
    ]
    return (*layers, linear("classifier", 1536, 1000))
