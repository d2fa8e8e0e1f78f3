"""Residual networks for ImageNet images of 224 x 224 pixels.

Architecture: K. He et al., https://arxiv.org/abs/1512.03385, table 1; the step of two lies on the 3 x 3 convolution of
a block, as in https://github.com/pytorch/vision/blob/main/torchvision/models/resnet.py ("v1.5").  A layer is a
convolution with the batch normalisation that follows; operations of normalisation, pooling and addition do not count.
"""

from themis_opt.workloads.layers import Layer, convolution, linear

EXPANSION = 4  # channels that leave a block, for each channel inside
STAGE_WIDTHS = (64, 128, 256, 512)  # channels inside the blocks of each of the four stages


def resnet(depths: tuple[int, int, int, int]) -> tuple[Layer, ...]:
    """Layers of a residual network of bottleneck blocks.

    `depths`: blocks of each stage: (3, 4, 6, 3) is ResNet-50.
    """
    layers = [convolution("conv1", (3, 64), 7, 224, 2, norm=True)]
    channels, side = 64, 56
    for stage, (depth, width) in enumerate(zip(depths, STAGE_WIDTHS, strict=True), start=1):
        for block in range(depth):
            stride = 2 if stage > 1 and block == 0 else 1
            layers += _block(f"layer{stage}.{block}", channels, width, side, stride)
            channels, side = EXPANSION * width, side // stride
    return (*layers, linear("fc", channels, 1000))


def _block(name: str, channels: int, width: int, side: int, stride: int) -> list[Layer]:
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
