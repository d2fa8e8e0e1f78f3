"""Models by their parameters or their config, as training iterations."""

import gzip
import json
from types import SimpleNamespace

import pytest
from reader_samples import CONFIG, RING_16, SHAPES

from themis_opt.base.errors import InputError
from themis_opt.formats.readers.registry import import_files
from themis_opt.workloads.layers import count
from themis_opt.workloads.listing import model_of_module
from themis_opt.workloads.models import find_model


@pytest.mark.parametrize(("text", "name"), [(CONFIG, "config.json"), (SHAPES, "shapes.txt")])
def test_packed_models_are_read_as_they_are(text, name, tmp_path):
    path, packed = tmp_path / name, tmp_path / f"{name}.gz"
    content = text if isinstance(text, str) else json.dumps(text)
    path.write_text(content)
    packed.write_bytes(gzip.compress(content.encode()))
    assert find_model(str(packed)).layers() == find_model(str(path)).layers()


def test_shapes_are_layers_without_buffers(write):
    (path,) = write(shapes__txt=SHAPES)
    layers = find_model(str(path)).layers()
    assert [(layer.name, layer.kind, layer.elements()) for layer in layers] == [
        ("conv1", "convolution", 64 * 3 * 49),
        ("bn1", "linear", 128),
        ("fc", "linear", 1000 * 513),
    ]
    assert count(layers, ("norm",)) == 64
    assert layers[2].flops == 2 * 512_000


def test_a_module_has_the_layers_of_its_parameters():
    shapes = {"a.weight": (4, 3), "a.bias": (4,), "scale": (2,)}
    module = SimpleNamespace(named_parameters=lambda: [(n, SimpleNamespace(shape=s)) for n, s in shapes.items()])
    assert [(layer.name, layer.elements()) for layer in model_of_module(module).layers()] == [("a", 16), ("scale", 2)]


def test_shapes_and_configs_are_trained_data_parallel(write):
    for files in (write(net__yml=RING_16, s__txt=SHAPES), write(net__yml=RING_16, config__json=CONFIG)):
        instance = import_files(files).instance
        assert all(t.kind == "all_reduce" and t.parallelism == "data" for t in instance.iteration.tensors)
        model = find_model(str(files[1]))
        assert sum(t.size for t in instance.iteration.tensors) == 2 * count(model.layers())


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (SHAPES + "what is this\n", "line 8 = 'what is this': must be a name and a shape"),
        (SHAPES + "fc.bias [2]\n", "line 8 = 'fc.bias': stands twice"),
        (SHAPES + "x.y [0]\n", r"x.y = \(0,\): must have 1 to"),
        ("bn1.running_mean [64]\n", "must list 1 to 20000 parameters"),
    ],
)
def test_lists_that_break_a_rule_are_refused(write, text, rule):
    with pytest.raises(InputError, match=rule):
        import_files(write(net__yml=RING_16, s__txt=text))


def test_a_config_of_an_unknown_architecture_is_read_with_assumptions_unless_it_is_no_decoder(write):
    notes = import_files(write(net__yml=RING_16, config__json=CONFIG | {"model_type": "newer"})).notes
    assert any("The reading of newer assumes: gated feed-forward layers" in note for note in notes)
    with pytest.raises(InputError, match="model_type = 'mamba': "):
        import_files(write(net__yml=RING_16, config__json=CONFIG | {"model_type": "mamba", "state_size": 16}))
