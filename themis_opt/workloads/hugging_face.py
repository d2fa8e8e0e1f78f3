"""Transformers by numbers, and of the ``config.json`` with which Hugging Face publishes weights.

Fields: https://huggingface.co/docs/transformers/main_classes/configuration, and the page of each architecture there.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields as fields_of
from functools import partial
from pathlib import Path
from typing import Any

from themis_opt.base.documents import read_json
from themis_opt.base.errors import InputError
from themis_opt.problem.iteration import MAX_TASKS
from themis_opt.workloads.decoders import Compressed, Decoder, Vision, decoder, vision_transformer
from themis_opt.workloads.encoder_decoders import EncoderDecoder, encoder_decoder
from themis_opt.workloads.layers import TrainingModel
from themis_opt.workloads.transformers import TransformerShape, transformer

USUAL_SEQUENCE = 4096  # tokens of a sample, where a model reads no fewer
MAX_NUMBER = 10**9  # of any size: larger ones are mistakes
LAYER_FIELDS = ("layers", "num_hidden_layers", "n_layer")
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

    Raises InputError if the file cannot be read, its architecture is not known, or a field is missing or not allowed.
    """
    content = read_json(path)
    kind = content.get("model_type")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise InputError(f"unknown architecture; known are {known}", field="model_type", value=kind, source=str(path))
    fields = _Fields(content, str(path))
    make = ARCHITECTURES[kind](fields)
    sequence = None if kind == "vit" else min(fields.positions, USUAL_SEQUENCE)
    return TrainingModel(kind, path.name, make, sequence)


class _Fields:
    """Numbers of a configuration, checked."""

    def __init__(self, content: Mapping[str, Any], source: str) -> None:
        self.content, self.source = content, source

    def __getitem__(self, name: str) -> int:
        value = self.content.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= _most(name):
            rule = f"must be a whole number from 1 to {_most(name)}"
            raise InputError(rule, field=name, value=value, source=self.source)
        return value

    def get(self, name: str, usual: int) -> int:
        """A number that may be missing, or null."""
        return usual if self.content.get(name) is None else self[name]

    def is_true(self, name: str, *, usual: bool = False) -> bool:
        """A choice; the usual one where it is missing."""
        value = self.content.get(name, usual)
        if not isinstance(value, bool):
            raise InputError("must be true or false", field=name, value=value, source=self.source)
        return value

    @property
    def positions(self) -> int:
        """Longest sequence that is read."""
        name = next((n for n in ("max_position_embeddings", "n_positions") if n in self.content), None)
        return USUAL_SEQUENCE if name is None else self[name]


Make = Callable[[int], tuple[Any, ...]]


def _decoder(fields: _Fields, **others: Any) -> Make:
    heads, hidden = fields["num_attention_heads"], fields["hidden_size"]
    usual = {
        "layers": fields["num_hidden_layers"],
        "hidden": hidden,
        "vocabulary": fields["vocab_size"],
        "heads": heads,
        "groups": fields.get("num_key_value_heads", heads),
        "head": fields.get("head_dim", max(1, hidden // heads)),
        "inner": fields["intermediate_size"],
        "tied": fields.is_true("tie_word_embeddings"),
        "biased": fields.is_true("attention_bias"),
        "out_biased": fields.is_true("attention_bias"),
        "inner_biased": fields.is_true("mlp_bias"),
    }
    return partial(decoder, _checked(Decoder(**usual | others), fields.source))


def _mixtral(fields: _Fields) -> Make:
    number, active, width = fields["num_local_experts"], fields["num_experts_per_tok"], fields["intermediate_size"]
    return _decoder(fields, inner=0, experts=number, active=active, expert=width)


def _qwen3_experts(fields: _Fields) -> Make:
    if fields.content.get("decoder_sparse_step", 1) != 1 or fields.content.get("mlp_only_layers"):
        raise InputError("must be 1: every layer has experts", field="decoder_sparse_step", source=fields.source)
    number, active, width = fields["num_experts"], fields["num_experts_per_tok"], fields["moe_intermediate_size"]
    return _decoder(fields, inner=0, experts=number, active=active, expert=width, head_norms=True)


def _gemma(fields: _Fields, **others: Any) -> Make:
    """Gemma ties the output projection unless its file says otherwise."""
    return _decoder(fields, tied=fields.is_true("tie_word_embeddings", usual=True), normed_twice=True, **others)


def _deepseek(fields: _Fields) -> Make:
    compressed = Compressed(
        query_rank=fields.get("q_lora_rank", 0), rank=fields["kv_lora_rank"], plain=fields["qk_nope_head_dim"],
        rotary=fields["qk_rope_head_dim"], value=fields["v_head_dim"],
    )  # fmt: skip
    return _decoder(
        fields, experts=fields["n_routed_experts"], active=fields["num_experts_per_tok"],
        shared=fields.get("n_shared_experts", 0), expert=fields["moe_intermediate_size"],
        dense=fields.get("first_k_dense_replace", 0), compressed=compressed,
        limited=(fields.get("n_group", 1), fields.get("topk_group", 1)),
    )  # fmt: skip


def _bert(fields: _Fields) -> Make:
    layers, hidden = fields["num_hidden_layers"], fields["hidden_size"]
    vocabulary, segments = fields["vocab_size"], fields.get("type_vocab_size", 2)
    inner = fields.get("intermediate_size", 4 * hidden)
    shape = TransformerShape(layers, hidden, vocabulary, fields.positions, segments, pooled=True, inner=inner)
    return partial(transformer, shape)


def _gpt_neox(fields: _Fields) -> Make:
    layers, hidden, vocabulary = fields["num_hidden_layers"], fields["hidden_size"], fields["vocab_size"]
    tied = fields.is_true("tie_word_embeddings")
    return partial(
        transformer, TransformerShape(layers, hidden, vocabulary, 0, inner=fields["intermediate_size"], tied=tied)
    )


def _t5(fields: _Fields) -> Make:
    layers = fields["num_layers"]
    shape = EncoderDecoder(
        (layers, fields.get("num_decoder_layers", layers)), fields["d_model"], fields["vocab_size"],
        fields["num_heads"], fields["d_kv"], fields["d_ff"], fields.get("relative_attention_num_buckets", 32),
        gated=str(fields.content.get("feed_forward_proj", "relu")).startswith("gated"),
        tied=fields.is_true("tie_word_embeddings", usual=True),
    )  # fmt: skip
    return partial(encoder_decoder, shape)


def _vision(fields: _Fields) -> Make:
    labels = fields.content.get("id2label")
    shape = Vision(
        fields["num_hidden_layers"], fields["hidden_size"], fields.get("image_size", 224), fields.get("patch_size", 16),
        len(labels) if isinstance(labels, dict) and labels else 1000, fields.get("intermediate_size", 0),
    )  # fmt: skip
    return lambda *_: vision_transformer(shape)


def _gpt_2(fields: _Fields) -> Make:
    inner = fields.get("n_inner", 0)
    shape = TransformerShape(fields["n_layer"], fields["n_embd"], fields["vocab_size"], fields.positions, inner=inner)
    return partial(transformer, shape)


ARCHITECTURES: Mapping[str, Callable[[_Fields], Make]] = {
    "llama": _decoder,
    "mistral": _decoder,
    "phi3": _decoder,
    "qwen2": partial(_decoder, biased=True),
    "qwen3": partial(_decoder, head_norms=True),
    "qwen3_moe": _qwen3_experts,
    "gemma2": _gemma,
    "gemma3_text": partial(_gemma, head_norms=True),
    "mixtral": _mixtral,
    "deepseek_v2": _deepseek,
    "deepseek_v3": _deepseek,
    "bert": _bert,
    "gpt2": _gpt_2,
    "gpt_neox": _gpt_neox,
    "t5": _t5,
    "vit": _vision,
}
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
