#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tiny random models as transformers saves them, into folders beside this script: config.json, model.safetensors,
and expected.safetensors with tokens, the logits of the last position of each row, and the losses of AdamW steps on these tokens, all in f32.

    pip install torch transformers safetensors numpy
    python3 tests/golden/formats/make_formats.py

Made with PyTorch 2.15.0, transformers 5.24.0 and safetensors 0.8.0. Run it again only if the models here change: another
version gives the same numbers, but may write other settings into config.json.
"""
import json
import pathlib
import shutil

import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

HERE = pathlib.Path(__file__).parent
VOCABULARY, CONTEXT, BATCH, STEPS = 37, 16, 2, 5
GPT2 = dict(vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=16, n_layer=2, n_head=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            bos_token_id=None, eos_token_id=None)
LLAMA = dict(vocab_size=VOCABULARY, max_position_embeddings=CONTEXT, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
             num_attention_heads=4, num_key_value_heads=2, bos_token_id=None, eos_token_id=None)
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 2.5,
          "original_max_position_embeddings": 8}
MODELS = {
    "gpt2": (GPT2LMHeadModel, GPT2Config(**GPT2), False),
    "gpt2_untied": (GPT2LMHeadModel, GPT2Config(**GPT2, tie_word_embeddings=False, n_inner=32, layer_norm_epsilon=1e-4), False),
    "llama": (LlamaForCausalLM, LlamaConfig(**LLAMA, rms_norm_eps=1e-6), False),
    "llama_tied": (LlamaForCausalLM, LlamaConfig(**LLAMA, tie_word_embeddings=True, rope_parameters=LLAMA3), False),
    "llama_sharded": (LlamaForCausalLM, LlamaConfig(**LLAMA), True),
}


def randomise(model):
    """Also what starts at zero or one, so that a bias or a gain that is left out shows."""
    for p in model.parameters():
        p.data = torch.randn_like(p) * 0.15 + (1.0 if p.dim() == 1 and p.data[0] == 1 else 0.0)


def expected(model):
    tokens = torch.randint(VOCABULARY, (BATCH, CONTEXT + 1))
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    numbers = {"tokens": tokens.float(), "logits": model(inputs).logits[:, -1].detach()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)
    losses = []
    for _ in range(STEPS):
        loss = torch.nn.functional.cross_entropy(model(inputs).logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    numbers["losses"] = torch.stack(losses)
    return {k: v.contiguous() for k, v in numbers.items()}


def every_type():
    """One file with all types that are read, and shapes that are easy to get wrong, in the reference's order."""
    torch.manual_seed(1)
    values = torch.randn(3, 5)
    save_file({"single": values, "half": values.half(), "brain": values.bfloat16(), "double": values.double(), "number": torch.tensor(2.5),
               "empty": torch.zeros(0, 4), 'é "quoted"\n': torch.ones(1), "whole": torch.arange(3), "bytes": torch.arange(3, dtype=torch.int8)},
              HERE / "types.safetensors", metadata={"format": "pt"})


def main():
    for name, (kind, config, sharded) in MODELS.items():
        torch.manual_seed(len(name))
        folder = HERE / name
        shutil.rmtree(folder, ignore_errors=True)
        model = kind(config).eval()
        randomise(model)
        model.save_pretrained(folder, **({"max_shard_size": "8KB"} if sharded else {}))
        (folder / "generation_config.json").unlink(missing_ok=True)
        save_file(expected(model), folder / "expected.safetensors")
    every_type()


if __name__ == "__main__":
    main()
