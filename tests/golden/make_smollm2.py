#!/usr/bin/env python3
"""Makes the goldens of SmolLM2-135M-Instruct: what transformers computes in float32 on the same
dequantised weights.

    make_smollm2.py [--model models/SmolLM2-135M-Instruct.Q4_1.gguf]

Writes to smollm2/
    steps.bin       ten prompts, 64 greedy steps each, per step the 32 highest logits
    perplexity.bin  token ids of perplexity.txt and the mean negative log-likelihood

Before that it checks, tensor by tensor, that transformers holds the values which the `gguf` package
reads from the file (the rows of Q and K un-permuted), so that a difference to us is ours.

Both files are little endian:
    steps.bin       u32 prompts, u32 steps, u32 top; per prompt: u32 n, u32 ids[n];
                    u32 chosen[steps]; u32 ids[steps][top]; f32 logits[steps][top], descending
    perplexity.bin  u32 n, u32 ids[n], f64 mean negative log-likelihood of ids[1..n-1]
"""
import argparse
import pathlib
import struct

import numpy
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = pathlib.Path(__file__).resolve().parent / "smollm2"
ROOT = HERE.parents[2]
STEPS = 64
TOP = 32

PROBLEMS = [
    "Two Sum. Given an array of integers and a target, return the indices of the two numbers that "
    "add up to the target. Explain the idea, give time and space complexity, then write Python.",
    "给定一个字符串，请找出其中不含有重复字符的最长子串的长度。请写出思路分析、时间复杂度和代码。",
    "You are given the heads of two sorted linked lists. Merge them into one sorted list and return "
    "its head. Use C++.",
    "实现一个函数，判断一个整数是否是回文数。例如 121 是回文数，而 -121 不是。",
    "Write a SQL query that returns the second highest salary from the table employee(id, salary).",
]
TEXTS = [
    "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n",
    "#include <stdio.h>\n\nint main(int argc, char **argv) {\n    for (int i = 0; i < ",
    "The capital of France is",
    "1, 1, 2, 3, 5, 8, 13,",
]


def load(path):
    name = dict(pretrained_model_name_or_path=str(path.parent), gguf_file=path.name)
    tokenizer = AutoTokenizer.from_pretrained(**name)
    model = AutoModelForCausalLM.from_pretrained(
        **name, dtype=torch.float32, attn_implementation="eager"
    )
    return tokenizer, model.eval()


def unpermute(rows, heads):
    """Rows of a head from interleaved pairs (2i, 2i + 1) to halves (i, i + d/2)."""
    count, columns = rows.shape
    return rows.reshape(heads, count // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows.shape)


def check_weights(path, model):
    config = model.config
    names = {
        "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj", "attn_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
    }
    outer = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}
    state = model.state_dict()
    count = 0
    for tensor in GGUFReader(path).tensors:
        values = dequantize(tensor.data, tensor.tensor_type).reshape(tensor.shape[::-1].tolist())
        if tensor.name in outer:
            name = outer[tensor.name]
        else:
            _, layer, part, _ = tensor.name.split(".")
            name = f"model.layers.{layer}.{names[part]}.weight"
            if part == "attn_q":
                values = unpermute(values, config.num_attention_heads)
            if part == "attn_k":
                values = unpermute(values, config.num_key_value_heads)
        assert numpy.array_equal(state[name].numpy(), values), f"{tensor.name} differs from {name}"
        count += 1
    assert torch.equal(state["lm_head.weight"], state["model.embed_tokens.weight"])
    print(f"{count} tensors equal the gguf package's values by bits")


@torch.no_grad()
def greedy(model, prompt):
    """Chooses with a cache, for speed, and takes the logits from one pass over the whole text."""
    ids, cache, fresh = list(prompt), None, list(prompt)
    for _ in range(STEPS):
        out = model(torch.tensor([fresh]), past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        fresh = [int(torch.argmax(out.logits[0, -1]))]
        ids += fresh
    logits = model(torch.tensor([ids[:-1]]), use_cache=False).logits[0, len(prompt) - 1 :]
    assert logits.shape[0] == STEPS
    top = torch.sort(logits, descending=True, stable=True)
    chosen = torch.tensor(ids[len(prompt) :])
    lost = (top.values[:, 0] - logits.gather(1, chosen[:, None])[:, 0]).max()
    assert lost < 1e-3, "the cache changed a choice that was not close"
    return chosen.numpy(), top.indices[:, :TOP].numpy(), top.values[:, :TOP].numpy()


def render(tokenizer, statement):
    messages = [{"role": "user", "content": statement}]
    return tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)


def make_steps(tokenizer, model, text):
    prompts = [render(tokenizer, problem) for problem in PROBLEMS] + TEXTS + [text[:2900]]
    golden = struct.pack("<3I", len(prompts), STEPS, TOP)
    for prompt in prompts:
        ids = tokenizer(prompt, add_special_tokens=False)["input_ids"]
        chosen, indices, values = greedy(model, ids)
        golden += struct.pack(f"<I{len(ids)}I", len(ids), *ids) + chosen.astype("<u4").tobytes()
        golden += indices.astype("<u4").tobytes() + values.astype("<f4").tobytes()
        print(f"{len(ids):4d} tokens: {tokenizer.decode(chosen)[:70]!r}", flush=True)
    (HERE / "steps.bin").write_bytes(golden)


@torch.no_grad()
def make_perplexity(tokenizer, model, text):
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    logits = model(torch.tensor([ids]), use_cache=False).logits[0].double()
    losses = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:]), reduction="none")
    mean = float(losses.mean())
    golden = struct.pack(f"<I{len(ids)}Id", len(ids), *ids, mean)
    (HERE / "perplexity.bin").write_bytes(golden)
    print(f"{len(ids)} tokens, perplexity {numpy.exp(mean):.6f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=pathlib.Path,
                        default=ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf")
    path = parser.parse_args().model.resolve()
    tokenizer, model = load(path)
    check_weights(path, model)
    text = (HERE / "perplexity.txt").read_text()
    make_perplexity(tokenizer, model, text)
    make_steps(tokenizer, model, text)


if __name__ == "__main__":
    main()
