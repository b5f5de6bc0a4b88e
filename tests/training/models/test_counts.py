"""Models: parameters, FLOPs and saved activations equal the published counts."""

import re

import pytest

from wavefabric.base.errors import InputError
from wavefabric.training.models import MODELS, load_model

MATRICES = ("matmul", "convolution", "attention")


@pytest.fixture(scope="module")
def models():
    return {name: load_model(name) for name in MODELS}


def flops_of(graph, *operators):
    return sum(layer.flops for layer in graph.layers if layer.operator in operators)


# Counted over the published checkpoints and reference code, to the last parameter.
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("bert-base", 110_106_428),
        ("bert-large", 336_226_108),
        ("inception-v3", 23_834_568),
        ("ncf", 31_832_577),
        ("gpt-7b", 6_738_415_616),
        ("gpt-70b", 68_976_648_192),
        ("llama3-8b", 8_030_261_248),
        ("llama3-70b", 70_553_706_496),
        ("llama3-405b", 405_853_388_800),
        ("mixtral-8x7b", 46_702_792_704),
        ("deepseek-v3", 671_026_404_352),
    ],
)
def test_parameters_are_those_of_the_published_weights(models, name, parameters):
    assert models[name].parameters == parameters


def test_dlrm_has_its_tables_and_perceptrons(models):
    # Naumov et al., bench/dlrm_s_criteo_kaggle.sh: 13-512-256-64-16, then 27 vectors' products to 512-256-1.
    bottom = 14 * 512 + 513 * 256 + 257 * 64 + 65 * 16
    top = (27 * 26 // 2 + 16 + 1) * 512 + 513 * 256 + 257
    assert models["dlrm-kaggle"].parameters == 33_762_577 * 16 + bottom + top


# The numbers in the papers' titles, abstracts and tables, where they are rounded.
@pytest.mark.parametrize(
    ("name", "published", "digits"),
    [
        ("bert-base", 110e6, 2),
        ("bert-large", 340e6, 2),
        ("inception-v3", 23.8e6, 3),
        ("gpt3-6.7b", 6660e6, 3),
        ("gpt3-175b", 174_600e6, 4),
        ("switch-base", 7.4e9, 2),
        ("mixtral-8x7b", 47e9, 2),
        ("deepseek-v3", 671e9, 3),
        ("dlrm", 24e9, 2),
    ],
)
def test_parameters_round_to_the_papers_numbers(models, name, published, digits):
    rounded = float(f"{models[name].parameters:.{digits - 1}e}")
    assert rounded == published


def test_bert_without_its_heads_has_the_encoder_parameters(models):
    for name, encoder in (("bert-base", 109_482_240), ("bert-large", 335_141_888)):
        graph = models[name]
        heads = ("transform", "transform norm", "decoder", "next sentence")
        outside = sum(graph.layers[graph.index[f"heads {head}"]].parameters for head in heads)
        assert graph.parameters - outside == encoder


def test_inception_has_its_auxiliary_head_and_its_multiply_adds(models):
    auxiliary = load_model("inception-v3", auxiliary=True)
    assert auxiliary.parameters == 27_161_264
    assert flops_of(models["inception-v3"], "convolution", "matmul") / 2 == pytest.approx(5.71e9, rel=1e-3)
    convolutions = [layer for layer in models["inception-v3"].layers if layer.operator == "convolution"]
    assert len(convolutions) == 94
    assert models["inception-v3"].layers[-2].flops == 2 * 2048 * 1000


# Brown et al., arXiv:2005.14165, table D.1: FLOPs to train with 300 G tokens.
@pytest.mark.parametrize(("name", "published"), [("gpt3-6.7b", 1.20e22), ("gpt3-175b", 3.14e23)])
def test_gpt3_trains_with_six_flops_a_parameter_and_token(models, name, published):
    forward = flops_of(models[name], "matmul") / 2048
    assert 3 * forward * 300e9 == pytest.approx(published, rel=0.01)


LLAMAS = {"gpt-7b": (32, 4096, 4096), "gpt-70b": (80, 8192, 4096), "llama3-8b": (32, 4096, 8192)}
LLAMAS |= {"llama3-70b": (80, 8192, 8192), "llama3-405b": (126, 16384, 8192)}


@pytest.mark.parametrize("name", LLAMAS)
def test_llama_takes_six_flops_a_parameter_and_token(models, name):
    # 6 N + 12 L H Q T (PaLM, arXiv:2204.02311, appendix B); N without the table that is only looked up.
    graph = models[name]
    blocks, width, tokens = LLAMAS[name]
    looked_up = graph.layers[0].parameters
    training = sum(
        layer.flops * (1 + min(layer.backward, 2.0)) for layer in graph.layers if layer.operator in MATRICES
    )
    expected = 6 * (graph.parameters - looked_up) + 12 * blocks * width * tokens
    assert training / tokens == pytest.approx(expected, rel=0.01)
    assert flops_of(graph, *MATRICES) == pytest.approx(graph.flops, rel=0.01)


def test_mixture_takes_the_flops_of_the_parameters_a_token_meets(models):
    graph = models["mixtral-8x7b"]
    met = sum(layer.parameters * (layer.used if layer.experts else 1.0) for layer in graph.layers)
    assert met == pytest.approx(12.9e9, rel=0.01)
    forward = flops_of(graph, "matmul") / 4096
    assert forward == pytest.approx(2 * (met - graph.layers[0].parameters), rel=0.01)


def test_deepseek_counts_of_its_papers(models):
    """37 G parameters a token (arXiv:2412.19437, abstract); 250 GFLOP to train a token in sequences of 4096
    with causal attention, which is half of all scores (arXiv:2505.09343, table 2)."""
    graph = models["deepseek-v3"]
    met = sum(layer.parameters * (layer.used if layer.experts else 1.0) for layer in graph.layers)
    assert float(f"{met - graph.layers[0].parameters:.1e}") == 37e9
    forward = flops_of(graph, "matmul") / 4096
    assert forward == pytest.approx(2 * (met - graph.layers[0].parameters), rel=0.01)
    causal = graph.training_flops - 3 * flops_of(graph, "attention") / 2
    assert causal / 4096 == pytest.approx(250e9, rel=0.01)
    routed = [layer for layer in graph.layers if layer.experts]
    assert len(routed) == 61 - 3
    assert {(layer.experts, layer.copies) for layer in routed} == {(256, 8.0)}


def test_latent_attention_by_hand(models):
    """Low-rank projections, norms and output of one block (arXiv:2412.19437, sections 2.1.1 and 4.2)."""
    block = [layer for layer in models["deepseek-v3"].layers if layer.block == "block 7"]
    mine = sum(layer.parameters for layer in block[: [x.operator for x in block].index("attention") + 2])
    down = 7168 * (1536 + 512 + 64) + 1536 + 512
    assert mine == 7168 + down + 128 * (1536 * 192 + 512 * 256) + 128 * 128 * 7168
    (attention,) = (layer for layer in block if layer.operator == "attention")
    assert attention.keys_values == 4096 * 128 * (192 + 128)
    assert attention.flops == 4096**2 * 128 * (2 * 192 + 2 * 128 + 5)


def test_llama_3_takes_long_sequences():
    long = load_model("llama3-8b:131072")
    assert long.parameters == 8_030_261_248
    assert long.sample == "sequence of 131072 tokens"


def test_saved_activations_are_those_of_korthikanti(models):
    # arXiv:2205.05198, table 2: s h (34 + 5 a s / h) B in 16 bits, of which masks of dropout 2 s h + a s²
    # and outputs of dropout 2 a s²; the norm at the end of a block keeps what theirs does at its start.
    for name, width, heads in (("bert-base", 768, 12), ("bert-large", 1024, 16)):
        graph = load_model(f"{name}:512")
        block = sum(layer.saved for layer in graph.layers if layer.block == "encoder 3")
        assert block == 16 * 512 * width + heads * 512**2


def test_neumf_reads_one_row_of_a_table(models):
    rows = {layer.name: layer for layer in models["ncf"].layers if layer.operator == "embedding"}
    assert rows["tables user factors"].used == 1 / 138_493


def test_every_product_has_the_flops_of_its_shapes(models):
    for graph in models.values():
        for layer in graph.layers:
            products = [graph.layers[graph.index[name]] for name in layer.inputs]
            if layer.operator != "matmul" or len(products) != 1 or "attention" in layer.name:
                continue
            tokens, width = products[0].features // products[0].output[-1], products[0].output[-1]
            assert layer.flops == 2 * tokens * width * layer.output[-1], layer.name
            assert layer.output[:-1] == products[0].output[:-1]
            assert layer.parameters in (
                width * layer.output[-1],
                (width + 1) * layer.output[-1],
                layer.output[-1],
                0,
            )


def test_elementwise_layers_keep_shapes_and_splits_chain(models):
    for graph in models.values():
        for layer in graph.layers:
            inputs = [graph.layers[graph.index[name]] for name in layer.inputs]
            if layer.operator == "normalisation" or layer.name.endswith(("sum", "relu", "gelu", "silu")):
                assert {source.output for source in inputs} <= {layer.output}, layer.name
            if layer.split == "row" and layer.operator == "matmul" and not layer.experts and layer.inputs:
                divided = all(source.split in ("column", "local") for source in inputs)
                assert divided or "attention" in layer.name, layer.name


def test_every_model_says_what_it_is(models):
    for name, graph in models.items():
        assert graph.name == name
        assert "arXiv:" in graph.source, name
        assert graph.batch >= 1
        assert len(graph.blocks) >= 2
        assert MODELS[name].summary


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        (
            "bert",
            {},
            r'model: "bert" given \(did you mean bert-base\?\); allowed: a JSON file, bert-base, .*',
        ),
        (
            "bert-base:x",
            {},
            r'model: "bert-base:x" given; allowed: bert-base:N with N tokens, a whole number',
        ),
        ("bert-base:", {}, r'model: "bert-base:" given; allowed: .*'),
        ("bert-base:513", {}, r"tokens: 513; allowed: whole numbers from 1 to 512"),
        ("gpt-7b:0", {}, r"tokens: 0; .*"),
        ("inception-v3:4", {}, r'model: "inception-v3:4" given; allowed: inception-v3 without a number'),
        ("ncf:8", {"factors": 8}, r'factors: given twice, with "ncf:8"; allowed: once'),
        ("ncf", {"factors": 1.5}, r"factors: 1.5; .*"),
        ("dlrm", {"tokens": 4}, r"tokens: given for dlrm; allowed: no options"),
        (
            "none.json",
            {},
            r"model: none.json \(No such file or directory\); allowed: a file that can be read",
        ),
        ("none.json", {"tokens": 4}, r"tokens: given for a file; allowed: options of models by name"),
    ],
)
def test_bad_names_take_one_line(text, options, message):
    with pytest.raises(InputError) as caught:
        load_model(text, **options)
    assert "\n" not in str(caught.value)
    assert re.fullmatch(message, str(caught.value)), str(caught.value)


def test_a_number_sets_the_length():
    assert load_model("gpt-7b:1024").layers[0].output == (1024, 4096)
    assert load_model("bert-large:512").sample == "sequence of 512 tokens"
    assert load_model("gpt-7b:1024").parameters == load_model("gpt-7b").parameters
