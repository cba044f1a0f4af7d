"""Models of transformers, small and random, whose attention is this package's."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import bsr_gemm as bsr  # noqa: E402
import bsr_gemm.transformers  # noqa: E402
from bsr_gemm.transformers import make_mask  # noqa: E402

SMALL = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "head_dim": 8}
MODELS = {
    "llama": lambda: transformers.LlamaConfig(**SMALL, **HEADS),
    "mistral": lambda: transformers.MistralConfig(**SMALL, **HEADS, sliding_window=70),
    "gemma2": lambda: transformers.Gemma2Config(
        **SMALL, **HEADS, sliding_window=40, attn_logit_softcapping=0.5, query_pre_attn_scalar=2
    ),
    "gpt2": lambda: transformers.GPT2Config(
        vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=512, attn_pdrop=0.0, resid_pdrop=0.0, embd_pdrop=0.0
    ),
    "gpt_oss": lambda: transformers.GptOssConfig(
        **SMALL, **HEADS, sliding_window=40, num_local_experts=2, num_experts_per_tok=1
    ),
}


def models(name: str):
    """Two models with the same weights: one with our attention, and one with that of PyTorch."""
    torch.manual_seed(0)
    theirs = "eager" if name in ("gemma2", "gpt_oss") else "sdpa"
    of = {
        how: transformers.AutoModelForCausalLM.from_config(MODELS[name](), attn_implementation=how)
        for how in ("bsr", theirs)
    }
    of["bsr"].load_state_dict(of[theirs].state_dict())
    with torch.no_grad():
        # Larger weights, with which attention is not uniform.
        for ours, other in zip(of["bsr"].parameters(), of[theirs].parameters()):
            ours.copy_(other.normal_(std=0.2) if other.dim() > 1 else other)
    return of["bsr"].train(), of[theirs].train()


def tokens(length: int, seed: int = 0, batch: int = 2):
    return torch.randint(0, 64, (batch, length), generator=torch.Generator().manual_seed(seed))


def close(ours, theirs) -> None:
    torch.testing.assert_close(ours, theirs, atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("name", MODELS)
def test_logits_and_gradients(name) -> None:
    ours, theirs = models(name)
    ids, found = tokens(200), []
    for model in (ours, theirs):
        out = model(ids, labels=ids)
        out.loss.backward()
        found.append((out.logits, *(p.grad for p in model.parameters())))
    assert found[0][0].std() > 0.1
    for our, their in zip(*found):
        close(our, their)


@pytest.mark.parametrize("name", ["llama", "mistral"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding(name, side) -> None:
    ours, theirs = models(name)
    ids, valid = tokens(150), torch.ones(2, 150, dtype=torch.long)
    valid[1, slice(0, 90) if side == "left" else slice(60, None)] = 0
    logits = [model(ids, attention_mask=valid).logits[valid.bool()] for model in (ours, theirs)]
    close(*logits)
    other = ids.clone()
    other[valid == 0] = 3
    close(ours(other, attention_mask=valid).logits[valid.bool()], logits[0])


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_sequences_that_are_packed_into_a_row(name) -> None:
    ours, theirs = models(name)
    ids, lengths = tokens(190, batch=1), (100, 30, 60)
    positions = torch.cat([torch.arange(length) for length in lengths])[None]
    packed = [model(ids, position_ids=positions, use_cache=False).logits for model in (ours, theirs)]
    close(*packed)
    alone = torch.cat([ours(part).logits for part in ids.split(lengths, dim=1)], dim=1)
    close(packed[0], alone)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", ["llama", "mistral", "gpt_oss"])
def test_generation(name, cache) -> None:
    ours, theirs = (model.eval() for model in models(name))
    ids, valid = tokens(60), torch.ones(2, 60, dtype=torch.long)
    valid[1, :13] = 0
    how = {
        "attention_mask": valid,
        "max_new_tokens": 20,
        "do_sample": False,
        "cache_implementation": cache,
        "pad_token_id": 0,
    }
    how |= {"output_scores": True, "return_dict_in_generate": True, "disable_compile": True}
    found = [model.generate(ids, **how) for model in (ours, theirs)]
    assert torch.equal(found[0].sequences, found[1].sequences)
    close(torch.stack(found[0].scores), torch.stack(found[1].scores))


def test_prompts_in_parts() -> None:
    ours, _ = models("mistral")
    ids, cache = tokens(180), transformers.DynamicCache(config=ours.config)
    parts = torch.cat([ours(part, past_key_values=cache).logits for part in ids.split([100, 50, 1, 29], dim=1)], dim=1)
    close(parts, ours(ids).logits)


def test_compiled_models_have_no_graph_break() -> None:
    ours, _ = models("mistral")
    ids, valid = tokens(150), torch.ones(2, 150, dtype=torch.long)
    valid[1, :40] = 0
    compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
    for how in ({}, {"attention_mask": valid}):
        close(compiled(ids, **how).logits, ours(ids, **how).logits)


def test_masks_skip_what_always_holds() -> None:
    utils = transformers.masking_utils
    window = utils.sliding_window_causal_mask_function(64)
    assert make_mask(1, 100, 100, mask_function=utils.causal_mask_function).condition == "j <= i"
    assert make_mask(1, 1, 101, 100, mask_function=utils.causal_mask_function).condition is None
    assert make_mask(1, 1, 64, 100, 37, mask_function=window).condition is None
    assert make_mask(1, 60, 60, mask_function=window).condition == "j <= i"
    assert make_mask(1, 100, 120, 20, mask_function=window).condition == "j <= i + 20 && i + 20 - j < 64"
    every = {"mask_function": utils.bidirectional_mask_function, "attention_mask": torch.ones(1, 9) > 0}
    assert make_mask(1, 9, 9, **every).condition is None
    sizes, both = (30, 30), utils.sliding_window_bidirectional_mask_function(5)
    ours = bsr.AttentionMask.where(make_mask(1, *sizes, mask_function=both).condition, sizes, (1, 1)).blocks()[0]
    theirs = utils.sdpa_mask(1, *sizes, mask_function=both, allow_is_causal_skip=False)
    assert torch.equal(torch.from_numpy(ours > 0), theirs[0, 0])


def test_what_is_refused() -> None:
    ours, _ = models("llama")
    ids, utils = tokens(20), transformers.masking_utils
    with pytest.raises(bsr.Error, match="the mask is 2 x 1 x 20 x 20 of torch.bool\n  help: a mask of padding"):
        ours(ids, attention_mask=torch.ones(2, 1, 20, 20, dtype=torch.bool))
    with pytest.raises(bsr.Error, match=r"made of `or_masks.*\n  help: `attn_implementation='sdpa'`"):
        make_mask(1, 9, 9, mask_function=utils.or_masks(utils.causal_mask_function, utils.bidirectional_mask_function))
    with pytest.raises(bsr.Error, match="made of `positions of packed sequences`"):
        make_mask(1, 9, 9, mask_function=utils.remap_positions_for_packed_sequence(utils.causal_mask_function, ids))
    with pytest.raises(bsr.Error, match="made of `.*test_transformers.*lambda"):
        make_mask(1, 9, 9, mask_function=lambda batch, head, i, j: i >= j)
    ours.model.layers[0].self_attn.attention_dropout = 0.1
    with pytest.raises(bsr.Error, match="dropout = 0.1 .*\n  help: `attention_dropout=0.0`"):
        ours(ids)
    q, forward = torch.randn(1, 2, 9, 8), bsr.transformers.attention_forward
    with pytest.raises(bsr.Error, match="a bias for every pair"):
        forward(ours, q, q, q, None, position_bias=q)
    with pytest.raises(bsr.Error, match="a sliding window of 4 keys without a mask, for 9 keys"):
        forward(ours, q, q, q, None, sliding_window=4)
