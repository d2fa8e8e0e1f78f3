"""VGG-16, for ImageNet images of 224 x 224 pixels and for CIFAR images of 32 x 32.

Architecture: K. Simonyan, A. Zisserman, https://arxiv.org/abs/1409.1556, configuration D, without batch normalisation.
The fully connected part for CIFAR-10 sees 512 inputs and keeps both layers of 4096.
"""

from themis_opt.workloads.layers import Layer, convolution, linear

CONVOLUTIONS = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Channels and convolutions of each stage; pooling halves the side after it."""

FULLY_CONNECTED_WIDTH = 4096


def vgg16(side: int, classes: int) -> tuple[Layer, ...]:
    """Layers of VGG-16.

    `side`: of the image, in pixels: a multiple of 32.
    """
    layers: list[Layer] = []
    channels = 3
    for stage, (width, depth) in enumerate(CONVOLUTIONS, start=1):
        for number in range(1, depth + 1):
            layers.append(convolution(f"conv{stage}_{number}", (channels, width), 3, side, 1, norm=False))
            channels = width
        side //= 2
    sizes = (channels * side**2, FULLY_CONNECTED_WIDTH, FULLY_CONNECTED_WIDTH, classes)
    layers += [linear(f"fc{k}", sizes[k - 6], sizes[k - 5]) for k in (6, 7, 8)]
    return tuple(layers)
