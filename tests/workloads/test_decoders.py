"""Models of today have the parameters that their authors publish; others come from numbers and configurations."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from themis_opt.base.errors import InputError
from themis_opt.workloads.layers import Layer, count
from themis_opt.workloads.models import MODELS, find_model
from themis_opt.workloads.pipeline import ends_of_blocks

PARAMETERS = {
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3-405b": 405_853_388_800,
    "mixtral-8x7b": 46_702_792_704,
    "deepseek-v3": 671_026_419_200 - 58 * 256,  # the biases of the routers are not trained by gradients
    "vit-b-16": 86_567_656,
    "vit-l-16": 304_326_632,
    "vit-h-14": 632_045_800,
}

LLAMA = {
    "model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "vocab_size": 128_256,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14_336, "tie_word_embeddings": False,
    "max_position_embeddings": 8192,
}  # fmt: skip

DEEPSEEK = {
    "model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168, "vocab_size": 129_280,
    "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 18_432, "q_lora_rank": 1536,
    "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256,
    "num_experts_per_tok": 8, "n_shared_experts": 1, "moe_intermediate_size": 2048, "first_k_dense_replace": 3,
    "n_group": 8, "topk_group": 4,
}  # fmt: skip

MIXTRAL = {
    "model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096, "vocab_size": 32_000,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14_336, "num_local_experts": 8,
    "num_experts_per_tok": 2, "head_dim": None,
}  # fmt: skip

BERT = {
    "model_type": "bert", "num_hidden_layers": 12, "hidden_size": 768, "vocab_size": 30_522, "type_vocab_size": 2,
    "max_position_embeddings": 512,
}  # fmt: skip

GPT_2 = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "vocab_size": 50_257, "n_positions": 1024}


def sizes(layers, hidden, heads, groups, inner, vocabulary, **more):
    names = ("num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size")
    return dict(zip(names, (layers, hidden, heads, groups, inner), strict=True)) | {"vocab_size": vocabulary} | more


T5 = {"model_type": "t5", "d_model": 512, "d_kv": 64, "vocab_size": 32_128}
LITE = {
    "q_lora_rank": None, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "n_routed_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2, "moe_intermediate_size": 1408,
    "first_k_dense_replace": 1,
}  # fmt: skip
OSS = {
    "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "head_dim": 64, "vocab_size": 201_088,
    "num_attention_heads": 64, "num_key_value_heads": 8, "num_experts_per_tok": 4, "attention_bias": True,
}  # fmt: skip
PUBLISHED = {
    "gpt-2": (GPT_2, 124_439_808),
    "gemma-2-2b": (sizes(26, 2304, 8, 4, 9216, 256_000, model_type="gemma2", head_dim=256), 2_614_341_888),
    "gemma-3-1b": (sizes(26, 1152, 4, 1, 6912, 262_144, model_type="gemma3_text", head_dim=256), 999_885_952),
    "phi-3-mini": (sizes(32, 3072, 32, 32, 8192, 32_064, model_type="phi3"), 3_821_079_552),
    "qwen3-8b": (sizes(36, 4096, 32, 8, 12_288, 151_936, model_type="qwen3", head_dim=128), 8_190_735_360),
    "qwen3-30b-a3b": (
        sizes(48, 2048, 32, 4, 6144, 151_936, model_type="qwen3_moe", head_dim=128, num_experts=128)
        | {"num_experts_per_tok": 8, "moe_intermediate_size": 768},
        30_532_122_624,
    ),
    "deepseek-v2-lite": (sizes(27, 2048, 16, 16, 10_944, 102_400, model_type="deepseek_v2") | LITE, 15_706_484_224),
    "pythia-1b": (sizes(16, 2048, 8, 8, 8192, 50_304, model_type="gpt_neox"), 1_011_781_632),
    "t5-small": (T5 | {"num_layers": 6, "num_heads": 8, "d_ff": 2048}, 60_506_624),
    "t5-v1.1-small": (
        T5
        | {"num_layers": 8, "num_heads": 6, "d_ff": 1024, "feed_forward_proj": "gated-gelu"}
        | {"tie_word_embeddings": False},
        76_961_152,
    ),
    "gpt-oss-20b": (OSS | {"num_hidden_layers": 24, "num_local_experts": 32}, 20_914_757_184),
    "gpt-oss-120b": (OSS | {"num_hidden_layers": 36, "num_local_experts": 128}, 116_829_156_672),
    "olmo-2-7b": (sizes(32, 4096, 32, 32, 11_008, 100_352, model_type="olmo2"), 7_298_617_344),
    "smollm3-3b": (sizes(36, 2048, 16, 4, 11_008, 128_256, model_type="smollm3"), 3_075_098_624),
    "granite-3.3-8b": (
        sizes(40, 4096, 32, 8, 12_800, 49_159, model_type="granite", tie_word_embeddings=True),
        8_170_864_640,
    ),
    "kimi-k2": (
        sizes(61, 7168, 64, 64, 18_432, 163_840, model_type="kimi_k2", first_k_dense_replace=1)
        | {name: DEEPSEEK[name] for name in DEEPSEEK if name.endswith(("rank", "dim", "experts", "tok"))}
        | {"n_routed_experts": 384, "moe_intermediate_size": 2048},
        1_026_408_232_448 - 60 * 384,  # the biases of the routers are not trained by gradients
    ),
    "glm-4.5-air": (
        sizes(46, 4096, 96, 8, 10_944, 151_552, model_type="glm4_moe", head_dim=128, attention_bias=True)
        | {"n_routed_experts": 128, "num_experts_per_tok": 8, "n_shared_experts": 1, "moe_intermediate_size": 1408}
        | {"first_k_dense_replace": 1},
        106_852_251_264 - 45 * 128,
    ),
    "llama-4-scout": (
        {
            "model_type": "llama4",
            "text_config": sizes(48, 5120, 40, 8, 8192, 202_048, head_dim=128)
            | {"num_local_experts": 16, "num_experts_per_tok": 1, "intermediate_size_mlp": 16_384},
        },
        107_769_861_120,
    ),
    "whisper-tiny": (
        {"model_type": "whisper", "d_model": 384, "encoder_layers": 4, "decoder_layers": 4, "encoder_ffn_dim": 1536}
        | {"decoder_ffn_dim": 1536, "num_mel_bins": 80, "vocab_size": 51_865, "is_encoder_decoder": True},
        37_760_640,
    ),
    "vit-base": (sizes(12, 768, 12, 12, 3072, 0, model_type="vit", image_size=224, patch_size=16), 86_567_656),
}
"""Configurations, and the parameters of the weights that are published with them, by the pages of Hugging Face."""


@pytest.fixture
def config(tmp_path: Path):
    """Writes a configuration."""

    def write(content: object) -> str:
        path = tmp_path / "config.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        return str(path)

    return write


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_model_has_the_parameters_that_are_published(name: str) -> None:
    assert count(MODELS[name].layers()) == PARAMETERS[name]


def unnamed(layers: tuple[Layer, ...]) -> list[Layer]:
    """Layers without their names, which those of a file have of the modules that hold them."""
    return [replace(layer, name="") for layer in layers]


def test_active_parameters_decide_about_operations() -> None:
    """Of 671 thousand million parameters of DeepSeek-V3 37 are active, each in two operations per token."""
    per_token = sum(layer.flops for layer in MODELS["deepseek-v3"].layers(1))
    assert per_token / 2 == pytest.approx(37e9, rel=0.02)
    assert sum(layer.flops for layer in MODELS["mixtral-8x7b"].layers(1)) / 2 == pytest.approx(12.9e9, rel=0.02)


@pytest.mark.parametrize(
    ("content", "model"),
    [(LLAMA, "llama-3-8b"), (DEEPSEEK, "deepseek-v3"), (MIXTRAL, "mixtral-8x7b"), (BERT, "bert-base")],
)
def test_a_configuration_is_the_model_it_belongs_to(config, content: dict, model: str) -> None:
    read, known = find_model(config(content)), MODELS[model]
    assert unnamed(read.layers(128)) == unnamed(known.layers(128))


LLAMA_BLOCK = ("model.layers.{}.self_attn", "model.layers.{}.mlp")


@pytest.mark.parametrize(
    ("content", "embedding", "blocks", "head"),
    [
        (LLAMA, "model.embed_tokens", LLAMA_BLOCK, "lm_head"),
        (PUBLISHED["llama-4-scout"][0]["text_config"] | {"model_type": "llama4_text"}, "model.embed_tokens",
         (LLAMA_BLOCK[0], "model.layers.{}.feed_forward"), "lm_head"),
        (PUBLISHED["llama-4-scout"][0], "language_model.model.embed_tokens",
         ("language_model.model.layers.{}.self_attn", "language_model.model.layers.{}.feed_forward"),
         "language_model.lm_head"),
        ({"model_type": "mistral3", "text_config": LLAMA}, "model.language_model.embed_tokens",
         ("model.language_model.layers.{}.self_attn", "model.language_model.layers.{}.mlp"), "lm_head"),
        (GPT_2, "transformer.wte", ("transformer.h.{}.attn", "transformer.h.{}.mlp"), "lm_head"),
        (PUBLISHED["pythia-1b"][0], "gpt_neox.embed_in",
         ("gpt_neox.layers.{}.attention", "gpt_neox.layers.{}.mlp"), "lm_head"),
        ({"model_type": "vit", "num_hidden_layers": 2, "hidden_size": 768}, "vit.embeddings",
         ("vit.layers.{}.attention", "vit.layers.{}.mlp"), "classifier"),
    ],
)  # fmt: skip
def test_layers_of_a_configuration_have_the_names_of_modules(
    config, content: dict, embedding: str, blocks: tuple[str, ...], head: str
) -> None:
    two = {name: 2 for name in ("num_hidden_layers", "n_layer") if name in (content.get("text_config") or content)}
    read = content | {"text_config": content["text_config"] | two} if "text_config" in content else content | two
    layers = find_model(config(read)).layers()
    every = [block.format(number) for number in range(2) for block in blocks]
    assert [layer.name for layer in layers] == [embedding, *every, head]
    assert ends_of_blocks(layers) == [3, 6]


def test_stacks_of_t5_have_the_names_of_modules(config) -> None:
    layers = find_model(config(PUBLISHED["t5-small"][0] | {"num_layers": 1})).layers(128)
    encoder, decoder = (f"encoder.block.0.layer.{n}" for n in (0, 1)), (f"decoder.block.0.layer.{n}" for n in (0, 1, 2))
    assert [layer.name for layer in layers] == ["shared", *encoder, *decoder, "lm_head"]
    assert ends_of_blocks(layers) == [3, 7]


def test_a_decoder_of_an_unknown_type_states_what_was_assumed(config) -> None:
    general = find_model(config(LLAMA | {"model_type": "newer"}))
    assert unnamed(general.layers(128)) == unnamed(MODELS["llama-3-8b"].layers(128))
    assert "head_dim = 128" in general.assumptions[0]
    assert "tie_word_embeddings" not in general.assumptions[0]  # which the file states


def test_windows_leave_pairs_of_tokens_out(config) -> None:
    """Of 16 tokens each sees 4: 4 times 16 pairs without the triangle of 4 x 4 / 2 before the first ones."""
    windows = LLAMA | {"sliding_window": 4, "num_hidden_layers": 2}
    wide, near, half = (
        sum(layer.flops for layer in find_model(config(windows | change)).layers(16))
        for change in ({"use_sliding_window": False}, {}, {"layer_types": ["sliding_attention", "full_attention"]})
    )
    a_pair = 2 * 2 * 32 * 128
    assert wide - near == 2 * a_pair * (16 * 16 // 2 - (4 * 16 - 4 * 4 // 2))
    assert wide - half == (wide - near) / 2


def test_other_architectures() -> None:
    tied = find_model("transformer:layers=2:hidden=256:vocabulary=1000:heads=4:groups=2:inner=512")
    attention = 256 * (4 + 2 * 2) * 64 + 256 * 256
    assert count(tied.layers()) == 2 * 1000 * 256 + 2 * (attention + 3 * 256 * 512) + 5 * 256


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_configuration_has_the_parameters_that_are_published(config, name: str) -> None:
    content, parameters = PUBLISHED[name]
    assert count(find_model(config(content)).layers()) == parameters


@pytest.mark.parametrize(
    ("content", "change", "more"),
    [
        (LLAMA, {"attention_bias": True}, 32 * ((32 + 2 * 8) * 128 + 4096)),
        (LLAMA, {"mlp_bias": True}, 32 * (2 * 14_336 + 4096)),
        (BERT, {"intermediate_size": 1000}, 12 * (1000 - 3072) * (2 * 768 + 1)),
        (GPT_2, {"n_inner": 1000}, 12 * (1000 - 3072) * (2 * 768 + 1)),
        (LLAMA, {"model_type": "qwen2", "tie_word_embeddings": True}, 32 * (32 + 2 * 8) * 128 - 128_256 * 4096),
    ],
)
def test_fields_that_change_parameters_are_read(config, content: dict, change: dict, more: int) -> None:
    assert count(find_model(config(content | change)).layers()) - count(find_model(config(content)).layers()) == more


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "mamba", "state_size": 16}, "unknown architecture with state_size"),
        ({"layer_types": ["linear_attention"], "sliding_window": 8}, "linear_attention"),
        ({"model_type": None}, "unknown architecture"),
        ({"hidden_size": "4096"}, "hidden_size"),
        ({"hidden_size": 0}, "hidden_size"),
        ({"vocab_size": 10**12}, "vocab_size"),
        ({"num_hidden_layers": None, "vocab_size": None}, "num_hidden_layers, vocab_size: must be given"),
        ({"num_local_experts": 8}, "num_experts_per_tok: must be given"),
        ({"tie_word_embeddings": "no"}, "must be true or false"),
        ({"num_key_value_heads": 5}, "multiple of groups"),
        ({"num_key_value_heads": 0}, "num_key_value_heads = 0: must be a whole number from 1"),
    ],
)
def test_a_wrong_configuration_is_refused(config, change: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_model(config(LLAMA | change))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("transformer", "needs layers"),
        ("transformer:layers=2", "needs hidden"),
        ("transformer:layers=2:hidden=0", "whole number"),
        ("transformer:layers=2000000:hidden=64", "must be a whole number from 1 to 10000"),
        ("transformer:layers=2:hidden=64:width=3", "knobs of transformer"),
        ("transformer:layers=2:layers=3", "each once"),
        ("transformer:layers=2:hidden=64:experts=2:active=3:expert=8", "more than the experts"),
        ("missing.json", "missing.json"),
        ("llama-9", "unknown model"),
    ],
)
def test_a_wrong_name_is_refused(name: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        find_model(name)
