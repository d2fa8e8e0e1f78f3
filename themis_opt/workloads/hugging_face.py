"""Transformers by numbers, and of the ``config.json`` with which Hugging Face publishes weights.

``architectures.toml`` says of each ``model_type`` the sizes of its shape, each a value, or the fields of the file that
state it.  Files of another type are read as a decoder, and the model states what that assumed.

Fields: https://huggingface.co/docs/transformers/main_classes/configuration, and the page of each architecture there.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields as fields_of
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from themis_opt.base.documents import read_json
from themis_opt.base.errors import InputError
from themis_opt.problem.iteration import MAX_TASKS
from themis_opt.workloads.decoders import Compressed, Decoder, Vision, decoder, vision_transformer
from themis_opt.workloads.encoder_decoders import EncoderDecoder, Speech, encoder_decoder, speech_model
from themis_opt.workloads.layers import Layer, TrainingModel
from themis_opt.workloads.transformers import TransformerShape, transformer

USUAL_SEQUENCE = 4096  # tokens of a sample, where a model reads no fewer
MAX_NUMBER = 10**9  # of any size: larger ones are mistakes
LAYER_FIELDS = ("layers", "num_hidden_layers", "n_layer", "num_layers", "n_layers")
"""Names of the number of layers, of which there are no more than an iteration has tasks."""

HEAD = 128  # usual size of a head
TRANSFORMER_KNOBS = tuple(field.name for field in fields_of(Decoder) if field.type is int and field.name != "head")
"""The numbers of a decoder but the size of a head, which follows from how many there are."""


def model_of_numbers(settings: Iterable[str]) -> TrainingModel:
    """A decoder of texts such as ``layers=32``, the rest as usual for its width.

    Raises InputError if a number is missing, unknown, or not allowed.
    """
    given: dict[str, int] = {}
    for setting in settings:
        name, _, text = setting.partition("=")
        if name not in TRANSFORMER_KNOBS or name in given:
            rule = f"knobs of transformer, each once: {', '.join(TRANSFORMER_KNOBS)}"
            raise InputError(rule, field="MODEL", value=setting)
        most = _most(name)
        if not (text.isascii() and text.isdigit() and len(text) < 11 and 0 < int(text) <= most):
            raise InputError(f"must be a whole number from 1 to {most}", field="MODEL", value=setting)
        given[name] = int(text)
    missing = [name for name in ("layers", "hidden") if name not in given]
    if missing:
        value = ":".join(["transformer", *settings])
        raise InputError(f"transformer needs {missing[0]}=..", field="MODEL", value=value)
    hidden = given["hidden"]
    heads = given.get("heads", max(1, hidden // HEAD))
    usual: dict[str, Any] = {
        "vocabulary": 128_000,
        "heads": heads,
        "groups": heads,
        "head": -(-hidden // heads),
        "inner": 4 * hidden,
    }
    shape = _checked(Decoder(**usual | given), "MODEL")
    title = f"Transformer {shape.layers} x {hidden}"
    return TrainingModel(title, "given by numbers", partial(decoder, shape), USUAL_SEQUENCE)


def _most(name: str) -> int:
    return MAX_TASKS if name in LAYER_FIELDS else MAX_NUMBER


def model_of_config(path: Path) -> TrainingModel:
    """The model of a ``config.json``.

    Raises InputError if the file cannot be read, describes no transformer that is known, or lacks fields.
    """
    content = read_json(path)
    nested, owner = content.get("text_config"), None
    if isinstance(nested, dict):
        owner, content = str(content.get("model_type")), {"model_type": content.get("model_type"), **nested}
    kind, file = str(content.get("model_type")), _File(content, str(path))
    known = ARCHITECTURES.get(kind)
    if known is None or content.get("mlp_only_layers"):
        file.expect_attention()
    sizes = dict(known or {})
    network = sizes.pop("shape", "decoder")
    modules = TABLE["modules"].get(sizes.pop("modules", network), {})
    shape = file.shape(SHAPES[network][0], {**TABLE["decoder"], **sizes} if network == "decoder" else sizes)
    general = [] if known is not None else [*GENERAL_ASSUMPTIONS, *file.assumed]
    assumed = (*(["text_config is all that is trained"] if isinstance(nested, dict) else []), *general)
    sequence = None if kind == "vit" else min(file.positions, USUAL_SEQUENCE)
    make = partial(_with_modules, SHAPES[network][1], modules, owner, shape)
    return TrainingModel(kind, path.name, make, sequence, assumed)


def _with_modules(
    make: Callable[..., tuple[Layer, ...]], modules: Mapping[str, str], owner: str | None, *shape: Any
) -> tuple[Layer, ...]:
    """Layers with names of modules, by which plans address them; `owner`: the ``model_type`` around a text_config."""

    def module(name: str) -> str:
        number = "".join(re.findall(r"\d+", name))
        known = modules.get(name.replace(number, ""), name).format(number)
        if owner == "llama4":
            return f"language_model.{known}"
        return re.sub(r"^model\.", "model.language_model.", known) if owner else known

    return tuple(replace(layer, name=module(layer.name)) for layer in make(*shape))


GENERAL_ASSUMPTIONS = (
    "gated feed-forward layers of three matrices",
    "a norm with weights alone before attention, feed-forward layers and the head",
    "nothing that no field names, such as experts",
    "names of modules as in Llama",
)
"""What no field of a decoder states."""

REQUIRED = object()  # in the place of a usual value: the file must have the field


class _File:
    def __init__(self, content: Mapping[str, Any], source: str) -> None:
        self.content, self.source = content, source
        self.missing: list[str] = []
        self.assumed: dict[str, None] = {}

    def number(self, name: str, least: int = 1) -> int:
        """A whole number."""
        value = self.content.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _most(name):
            rule = f"must be a whole number from {least} to {_most(name)}"
            raise InputError(rule, field=name, value=value, source=self.source)
        return value

    def shape(self, make: Callable[..., Any], rules: Mapping[str, Any]) -> Any:
        """A shape of sizes, by their rules. Raises InputError if fields are missing, all of which it names."""
        sizes: dict[str, Any] = {}
        for name, rule in rules.items():
            sizes[name] = self._size(rule, sizes)
        if self.missing:
            rule = f"must be given, for the layers of {self.content.get('model_type')}"
            raise InputError(rule, field=", ".join(self.missing), source=self.source)
        made = make(**sizes)
        return _checked(made, self.source) if isinstance(made, Decoder) else made

    def _size(self, rule: Any, before: Mapping[str, Any]) -> Any:
        if isinstance(rule, list):
            is_stated = isinstance(rule[0], str)
            return self._stated(rule, REQUIRED) if is_stated else tuple(self._size(one, before) for one in rule)
        if not isinstance(rule, dict):
            return rule
        options: dict[str, Any] = dict(rule)
        if field := options.pop("only_with", None):
            return self.shape(Compressed, options) if self.content.get(field) is not None else None
        if call := options.pop("call", None):
            return OF_FILES[call](self, **options)
        usual = rule["usual"]
        if isinstance(usual, str):
            usual = OF_SIZES[usual](before) if usual in OF_SIZES else before[usual]
        return self._stated(rule["fields"], usual)

    def _stated(self, names: Sequence[str], usual: Any) -> Any:
        name = next((name for name in names if self.content.get(name) is not None), None)
        if name is not None:
            least = int(usual is REQUIRED or usual > 0)  # 0 is a choice where it is the usual one
            if isinstance(usual, bool) and not isinstance(self.content[name], bool):
                raise InputError("must be true or false", field=name, value=self.content[name], source=self.source)
            return self.content[name] if isinstance(usual, bool) else self.number(name, least)
        if usual is REQUIRED:
            self.missing.append(names[0])
            return 1
        if isinstance(usual, bool) or usual > 1:
            self.assumed[f"{names[0]} = {str(usual).lower()}"] = None
        return usual

    @property
    def positions(self) -> int:
        """Longest sequence that is read."""
        names = ("max_position_embeddings", "n_positions", "max_target_positions")
        name = next((name for name in names if name in self.content), None)
        return USUAL_SEQUENCE if name is None else self.number(name)

    def expect_attention(self) -> None:
        """Refuse unknown architectures without a name, and those that state layers without attention, or an encoder."""
        kind, others = self.content.get("model_type"), [name for name in self.content if name.startswith(NO_DECODER)]
        if not isinstance(kind, str) or any(self.content[name] for name in others):
            why = f" with {others[0]}, no decoder whose layers all have attention" if others else ""
            rule = f"unknown architecture{why}; known are {', '.join(ARCHITECTURES)}"
            raise InputError(rule, field="model_type", value=kind, source=self.source)


NO_DECODER = (
    *("mamba", "ssm_", "state_size", "time_step", "linear_", "conv_", "rwkv", "hybrid_", "lru_"),
    *("is_encoder_decoder", "mlp_only_layers"),
)
"""How fields begin that, where they say something, make a model no decoder whose layers all have attention."""


def _windows(file: _File, pattern: int = 0) -> tuple[int, ...]:
    """Tokens that attention sees in each layer, 0 where all before; of `pattern` layers the last one sees all."""
    width = file.content.get("sliding_window") or file.content.get("attention_chunk_size")
    if not isinstance(width, int) or file.content.get("use_sliding_window") is False:
        return ()
    kinds, layers = file.content.get("layer_types"), file.number(LAYER_FIELDS[1])
    if isinstance(kinds, list):
        strange = next((kind for kind in kinds if not str(kind).endswith("_attention") or kind[:6] == "linear"), None)
        if strange is not None:
            rule = "must be attention to all tokens or to near ones"
            raise InputError(rule, field="layer_types", value=strange, source=file.source)
        return tuple(0 if kind == "full_attention" else width for kind in kinds)
    first = file.content.get("max_window_layers") or 0
    return tuple(width if n >= first and (not pattern or (n + 1) % pattern) else 0 for n in range(layers))


OF_SIZES: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "part of hidden": lambda sizes: max(1, sizes["hidden"] // sizes["heads"]),
    "needed by experts": lambda sizes: REQUIRED if sizes["experts"] else 0,
    "needed by dense layers": lambda sizes: (
        0 if sizes["experts"] and not sizes["dense"] and sizes["experts_every"] == 1 else REQUIRED
    ),
}
"""Usual sizes that follow from those before them."""

OF_FILES: Mapping[str, Callable[..., Any]] = {
    "windows": _windows,
    "labels": lambda file: len(labels) if isinstance(labels := file.content.get("id2label"), dict) and labels else 1000,
    "is gated": lambda file: str(file.content.get("feed_forward_proj", "relu")).startswith("gated"),
}
"""Sizes that several fields of a file say together."""

SHAPES: Mapping[str, tuple[type[Any], Callable[..., tuple[Layer, ...]]]] = {
    "decoder": (Decoder, decoder),
    "transformer": (TransformerShape, transformer),
    "encoder_decoder": (EncoderDecoder, encoder_decoder),
    "speech": (Speech, speech_model),
    "vision": (Vision, vision_transformer),
}
"""Shapes, and the functions that make layers of them and, where a sample is one, of the length of a sequence."""

TABLE = tomllib.loads(Path(__file__).with_name("architectures.toml").read_text(encoding="utf-8"))
ARCHITECTURES: Mapping[str, Mapping[str, Any]] = TABLE["architectures"]
"""The sizes in which architectures differ, or all of them, by their ``model_type``."""


def _checked(shape: Decoder, source: str) -> Decoder:
    if shape.heads % shape.groups:
        rule = f"heads must be a multiple of groups = {shape.groups}"
        raise InputError(rule, field="heads", value=shape.heads, source=source)
    if shape.active > shape.experts:
        rule = f"a token cannot use more than the experts = {shape.experts} of a layer"
        raise InputError(rule, field="active", value=shape.active, source=source)
    groups, used = shape.limited
    if used > groups or shape.experts % groups or shape.active > shape.experts * used // groups:
        rule = f"must divide {shape.experts} experts, and leave {shape.active} in topk_group = {used} of them"
        raise InputError(rule, field="n_group", value=groups, source=source)
    return shape
