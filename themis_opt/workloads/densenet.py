"""DenseNet-201, for images of 224 x 224 pixels.

Architecture: G. Huang et al., https://arxiv.org/abs/1608.06993, table 1, growth 32, as in torchvision: normalisation
comes before each convolution, so that it has the channels of its input, and after the last block.
"""

from dataclasses import replace

from themis_opt.workloads.layers import Layer, convolution, linear, norms

GROWTH_RATE, BOTTLENECK = 32, 4
BLOCKS = (6, 12, 48, 32)


def densenet_201() -> tuple[Layer, ...]:
    """Layers of DenseNet-201."""
    layers = [convolution("conv0", (3, 2 * GROWTH_RATE), 7, 224, 2, norm=True)]
    channels, side = 2 * GROWTH_RATE, 56
    for block, depth in enumerate(BLOCKS, start=1):
        for number in range(1, depth + 1):
            name = f"block{block}.{number}"
            layers.append(_normalised(f"{name}.conv1", (channels, BOTTLENECK * GROWTH_RATE), 1, side))
            layers.append(_normalised(f"{name}.conv2", (BOTTLENECK * GROWTH_RATE, GROWTH_RATE), 3, side))
            channels += GROWTH_RATE
        if block < len(BLOCKS):
            layers.append(_normalised(f"transition{block}.conv", (channels, channels // 2), 1, side))
            channels, side = channels // 2, side // 2
    last = linear("classifier", channels, 1000)
    return (*layers, replace(last, parameters=(*norms(channels), *last.parameters)))


def _normalised(name: str, channels: tuple[int, int], kernel: int, side: int) -> Layer:
    """A convolution with the normalisation of its input."""
    layer = convolution(name, channels, kernel, side, 1, norm=True)
    return replace(layer, parameters=(*norms(channels[0]), layer.parameters[0]))
