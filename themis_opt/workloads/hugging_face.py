"""Transformers by numbers, and of the ``config.json`` with which Hugging Face publishes weights.

:data:`ARCHITECTURES` is a table: of each ``model_type`` the sizes of its shape, each a value, or the fields of the file
that state it.  Files of another type are read as a decoder, and the model states what that assumed.

Fields: https://huggingface.co/docs/transformers/main_classes/configuration, and the page of each architecture there.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields as fields_of
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

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
        given[name] = _whole(text, setting)
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


def _whole(text: str, setting: str) -> int:
    most = _most(setting.partition("=")[0])
    if not (text.isascii() and text.isdigit() and len(text) < 11 and 0 < int(text) <= most):
        raise InputError(f"must be a whole number from 1 to {most}", field="MODEL", value=setting)
    return int(text)


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
    architecture = known or _decoder()
    shape = file.shape(architecture.shape)
    general = [] if known else [*GENERAL_ASSUMPTIONS, *file.assumed]
    assumed = (*(["text_config is all that is trained"] if isinstance(nested, dict) else []), *general)
    sequence = None if kind == "vit" else min(file.positions, USUAL_SEQUENCE)
    modules = MODULES.get(kind, DECODER_MODULES if architecture.make is decoder else ())
    make = partial(_with_modules, architecture.make, modules, owner, shape)
    return TrainingModel(kind, path.name, make, sequence, assumed)


BLOCK_PARTS = ("embedding", "layer.attention", "layer.mlp", "head")
DECODER_MODULES = ("model.embed_tokens", "model.layers.{}.self_attn", "model.layers.{}.mlp", "lm_head")
"""Layers of a decoder without their number, and the modules of Transformers 5 that hold most of their parameters."""
LLAMA_4_MODULES = (*DECODER_MODULES[:2], "model.layers.{}.feed_forward", "lm_head")
T5_PARTS = ("encoder.attention", "encoder.mlp", "decoder.attention", "decoder.cross", "decoder.mlp")
T5_PLACES = (("encoder", 0), ("encoder", 1), ("decoder", 0), ("decoder", 1), ("decoder", 2))
MODULES: Mapping[str, tuple[str, ...]] = {
    "llama4": LLAMA_4_MODULES,
    "llama4_text": LLAMA_4_MODULES,
    "gpt2": ("transformer.wte", "transformer.h.{}.attn", "transformer.h.{}.mlp", "lm_head"),
    "gpt_neox": ("gpt_neox.embed_in", "gpt_neox.layers.{}.attention", "gpt_neox.layers.{}.mlp", "lm_head"),
    "vit": ("vit.embeddings", "vit.layers.{}.attention", "vit.layers.{}.mlp", "classifier"),
    "t5": ("shared", *(f"{stack}.block.{{}}.layer.{n}" for stack, n in T5_PLACES), "lm_head"),
}
"""The same by ``model_type``.  Layers of others keep their names: in BERT and Whisper two modules make an MLP."""


def _with_modules(
    make: Callable[..., tuple[Layer, ...]], modules: Sequence[str], owner: str | None, *shape: Any
) -> tuple[Layer, ...]:
    """Layers with names of modules, by which plans address them; `owner`: the ``model_type`` around a text_config."""
    blocks = BLOCK_PARTS if len(modules) == len(BLOCK_PARTS) else (BLOCK_PARTS[0], *T5_PARTS, BLOCK_PARTS[-1])
    names = dict(zip(blocks, modules, strict=False))

    def module(name: str) -> str:
        number = "".join(re.findall(r"\d+", name))
        known = names.get(name.replace(number, ""), name).format(number)
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


class Stated(NamedTuple):
    """Where a file states a size.

    `names`: its fields, of which the first one that is there counts.
    `usual`: the size where none is; functions take the sizes that stand before it in the table.
    """

    names: tuple[str, ...]
    usual: Any = REQUIRED


class Shape(NamedTuple):
    """The sizes of a dataclass, each a value, a field, a tuple of these, or a function of the file.

    `only_with`: the field without which there is None.
    """

    make: Callable[..., Any]
    sizes: Mapping[str, Any]
    only_with: str = ""


class Architecture(NamedTuple):
    """A shape, and the function that makes layers of it and the length of a sequence."""

    shape: Shape
    make: Callable[..., tuple[Layer, ...]]


class _File:
    """Values of a configuration, checked."""

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

    def is_true(self, name: str) -> bool:
        """A choice."""
        value = self.content[name]
        if not isinstance(value, bool):
            raise InputError("must be true or false", field=name, value=value, source=self.source)
        return value

    def shape(self, shape: Shape) -> Any:
        """All sizes of a shape. Raises InputError if fields are missing, all of which it names."""
        sizes: dict[str, Any] = {}
        for name, rule in shape.sizes.items():
            sizes[name] = self._size(rule, sizes)
        if self.missing:
            rule = f"must be given, for the layers of {self.content.get('model_type')}"
            raise InputError(rule, field=", ".join(self.missing), source=self.source)
        made = shape.make(**sizes)
        return _checked(made, self.source) if isinstance(made, Decoder) else made

    def _size(self, rule: Any, before: Mapping[str, Any]) -> Any:
        if isinstance(rule, Shape):
            return self.shape(rule) if self.content.get(rule.only_with) is not None else None
        if isinstance(rule, Stated):
            return self._stated(rule, before)
        if isinstance(rule, tuple):
            return tuple(self._size(one, before) for one in rule)
        return rule(self) if callable(rule) else rule

    def _stated(self, field: Stated, before: Mapping[str, Any]) -> Any:
        name = next((name for name in field.names if self.content.get(name) is not None), None)
        usual = field.usual(before) if callable(field.usual) else field.usual
        if name is not None:
            least = int(usual is REQUIRED or usual > 0)  # 0 is a choice where it is the usual one
            return self.is_true(name) if isinstance(usual, bool) else self.number(name, least)
        if usual is REQUIRED:
            self.missing.append(field.names[0])
            return 1
        if isinstance(usual, bool) or usual > 1:
            self.assumed[f"{field.names[0]} = {str(usual).lower()}"] = None
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


def _needed(values: Mapping[str, Any]) -> Any:
    """Experts need a width, and how many of them a token uses."""
    return REQUIRED if values["experts"] else 0


def _dense(values: Mapping[str, Any]) -> Any:
    """Layers without experts need a width."""
    return 0 if values["experts"] and not values["dense"] and values["experts_every"] == 1 else REQUIRED


def _windows(file: _File, pattern: int = 0) -> tuple[int, ...]:
    """Tokens that attention sees in each layer, 0 where all before; of `pattern` layers the last one sees all."""
    width = file.content.get("sliding_window") or file.content.get("attention_chunk_size")
    if not isinstance(width, int) or file.content.get("use_sliding_window") is False:
        return ()
    kinds, layers = file.content.get("layer_types"), file.number(DECODER["layers"].names[0])
    if isinstance(kinds, list):
        strange = next((kind for kind in kinds if not str(kind).endswith("_attention") or kind[:6] == "linear"), None)
        if strange is not None:
            rule = "must be attention to all tokens or to near ones"
            raise InputError(rule, field="layer_types", value=strange, source=file.source)
        return tuple(0 if kind == "full_attention" else width for kind in kinds)
    first = file.content.get("max_window_layers") or 0
    return tuple(width if n >= first and (not pattern or (n + 1) % pattern) else 0 for n in range(layers))


def _labels(file: _File) -> int:
    labels = file.content.get("id2label")
    return len(labels) if isinstance(labels, dict) and labels else 1000


def _is_gated(file: _File) -> bool:
    return str(file.content.get("feed_forward_proj", "relu")).startswith("gated")


DECODER: Mapping[str, Any] = {
    "layers": Stated(LAYER_FIELDS[1:]),
    "hidden": Stated(("hidden_size", "n_embd", "d_model")),
    "vocabulary": Stated(("vocab_size",)),
    "heads": Stated(("num_attention_heads", "n_head", "n_heads")),
    "groups": Stated(("num_key_value_heads", "num_kv_heads"), lambda sizes: sizes["heads"]),
    "head": Stated(("head_dim",), lambda sizes: max(1, sizes["hidden"] // sizes["heads"])),
    "experts": Stated(("num_local_experts", "num_experts", "n_routed_experts"), 0),
    "active": Stated(("num_experts_per_tok", "num_experts_per_token", "moe_topk"), _needed),
    "expert": Stated(("moe_intermediate_size", "intermediate_size"), _needed),
    "shared": Stated(("n_shared_experts", "num_shared_experts"), 0),
    "dense": Stated(("first_k_dense_replace",), 0),
    "experts_every": Stated(("decoder_sparse_step", "interleave_moe_layer_step"), 1),
    "limited": (Stated(("n_group",), 1), Stated(("topk_group",), 1)),
    "inner": Stated(("intermediate_size", "ffn_dim", "n_inner"), _dense),
    "tied": Stated(("tie_word_embeddings",), False),
    "biased": Stated(("attention_bias",), False),
    "out_biased": Stated(("attention_bias",), False),
    "inner_biased": Stated(("mlp_bias",), False),
    "windows": _windows,
    "compressed": Shape(
        Compressed,
        {
            "query_rank": Stated(("q_lora_rank",), 0),
            "rank": Stated(("kv_lora_rank",)),
            "plain": Stated(("qk_nope_head_dim",)),
            "rotary": Stated(("qk_rope_head_dim",)),
            "value": Stated(("v_head_dim",)),
        },
        only_with="kv_lora_rank",
    ),
}
"""The sizes of a decoder; architectures differ in some of them."""

TIED = Stated(("tie_word_embeddings",), True)
GEMMA: Mapping[str, Any] = {"tied": TIED, "normed_twice": True}
LLAMA_4: Mapping[str, Any] = {
    "expert": Stated(("intermediate_size",)), "shared": 1, "inner": Stated(("intermediate_size_mlp",)),
    "windows": partial(_windows, pattern=4),
}  # fmt: skip
GPT_OSS: Mapping[str, Any] = {
    "biased": Stated(("attention_bias",), True), "out_biased": Stated(("attention_bias",), True),
    "sinks": True, "experts_biased": True, "windows": partial(_windows, pattern=2),
}  # fmt: skip


def _decoder(**others: Any) -> Architecture:
    """A decoder that differs in some sizes."""
    return Architecture(Shape(Decoder, {**DECODER, **others}), decoder)


def _transformer(**sizes: Any) -> Architecture:
    return Architecture(Shape(TransformerShape, sizes), transformer)


ARCHITECTURES: Mapping[str, Architecture] = {
    "llama": _decoder(),
    "mistral": _decoder(),
    "phi3": _decoder(),
    "smollm3": _decoder(tied=TIED),
    "granite": _decoder(),
    "olmo2": _decoder(whole_norms=True),
    "qwen2": _decoder(biased=True),
    "qwen3": _decoder(head_norms=True),
    "qwen3_moe": _decoder(head_norms=True),
    "gemma2": _decoder(**GEMMA, windows=partial(_windows, pattern=2)),
    "gemma3_text": _decoder(**GEMMA, head_norms=True, windows=partial(_windows, pattern=6)),
    "mixtral": _decoder(),
    "gpt_oss": _decoder(**GPT_OSS),
    "llama4": _decoder(**LLAMA_4),
    "llama4_text": _decoder(**LLAMA_4),
    "glm4_moe": _decoder(out_biased=False, head_norms=Stated(("use_qk_norm",), False)),
    "deepseek_v2": _decoder(),
    "deepseek_v3": _decoder(),
    "kimi_k2": _decoder(),
    "bert": _transformer(
        layers=Stated(("num_hidden_layers",)), hidden=Stated(("hidden_size",)), vocabulary=Stated(("vocab_size",)),
        positions=Stated(("max_position_embeddings",), USUAL_SEQUENCE), segments=Stated(("type_vocab_size",), 2),
        pooled=True, inner=Stated(("intermediate_size",), 0),
    ),
    "gpt2": _transformer(
        layers=Stated(("n_layer",)), hidden=Stated(("n_embd",)), vocabulary=Stated(("vocab_size",)),
        positions=Stated(("n_positions",), USUAL_SEQUENCE), inner=Stated(("n_inner",), 0),
    ),
    "gpt_neox": _transformer(
        layers=Stated(("num_hidden_layers",)), hidden=Stated(("hidden_size",)), vocabulary=Stated(("vocab_size",)),
        positions=0, inner=Stated(("intermediate_size",)), tied=Stated(("tie_word_embeddings",), False),
    ),
    "t5": Architecture(
        Shape(EncoderDecoder, {
            "encoder": Stated(("num_layers",)),
            "decoder": Stated(("num_decoder_layers",), lambda sizes: sizes["encoder"]),
            "hidden": Stated(("d_model",)), "vocabulary": Stated(("vocab_size",)), "heads": Stated(("num_heads",)),
            "head": Stated(("d_kv",)), "inner": Stated(("d_ff",)),
            "buckets": Stated(("relative_attention_num_buckets",), 32), "gated": _is_gated, "tied": TIED,
        }),
        encoder_decoder,
    ),
    "whisper": Architecture(
        Shape(Speech, {
            "encoder": Stated(("encoder_layers",)), "decoder": Stated(("decoder_layers",)),
            "hidden": Stated(("d_model",)), "vocabulary": Stated(("vocab_size",)),
            "encoder_inner": Stated(("encoder_ffn_dim",)), "decoder_inner": Stated(("decoder_ffn_dim",)),
            "bins": Stated(("num_mel_bins",)), "frames": Stated(("max_source_positions",), 1500),
            "positions": Stated(("max_target_positions",), 448),
        }),
        speech_model,
    ),
    "vit": Architecture(
        Shape(Vision, {
            "layers": Stated(("num_hidden_layers",)), "hidden": Stated(("hidden_size",)),
            "image": Stated(("image_size",), 224), "patch": Stated(("patch_size",), 16), "classes": _labels,
            "inner": Stated(("intermediate_size",), 0),
        }),
        vision_transformer,
    ),
}  # fmt: skip
"""How architectures are read, by their ``model_type``."""


def _checked(shape: Decoder, source: str) -> Decoder:
    """The shape, if its parts fit each other."""
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
