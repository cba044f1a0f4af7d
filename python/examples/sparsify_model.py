"""Sparsifies a small language model of random weights, trains it a little, saves it, and loads it again.

Needs transformers and safetensors: ``python examples/sparsify_model.py model.safetensors``.
"""

from __future__ import annotations

import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM

from bsr_gemm import nn


def model() -> LlamaForCausalLM:
    sizes = {"vocab_size": 256, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
    return nn.sparsify_(LlamaForCausalLM(LlamaConfig(**sizes, **heads)), block=(64, 64), keep=0.5)


def main(path: str) -> None:
    torch.manual_seed(0)
    trained, tokens = model(), torch.randint(0, 256, (4, 32))
    print(trained.model.layers[0].mlp)
    optimizer = torch.optim.AdamW(trained.parameters(), lr=3e-3)
    for step in range(10):
        loss = trained(input_ids=tokens, labels=tokens).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}  loss {loss.item():.3f}")
    save_file({name: tensor.contiguous() for name, tensor in trained.state_dict().items()}, path)
    loaded = model()
    loaded.load_state_dict(load_file(path))
    twins = [twin.eval().generate(tokens[:1, :8], max_new_tokens=8, do_sample=False) for twin in (trained, loaded)]
    print("the same tokens" if torch.equal(*twins) else "OTHER TOKENS", twins[0][0, 8:].tolist())


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "model.safetensors")
