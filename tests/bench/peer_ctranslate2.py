"""CTranslate2: peer_ctranslate2.py FOLDER THREADS BATCH PROMPT COMPLETION

For the interpreter that has it; prints one JSON document, as peer_rates.py says it."""

import json
import pathlib
import sys

import ctranslate2

from peer_rates import report


def main():
    folder, threads, batch, prompt, completion = sys.argv[1], *map(int, sys.argv[2:6])
    generator = ctranslate2.Generator(folder, device="cpu", compute_type="int8",
                                      inter_threads=1, intra_threads=threads)
    words = json.loads((pathlib.Path(folder) / "vocabulary.json").read_text(encoding="utf-8"))

    def generate(prompts, tokens):
        results = generator.generate_batch([[words[i] for i in ids] for ids in prompts],
                                           max_batch_size=batch, max_length=tokens,
                                           min_length=tokens, sampling_topk=1,
                                           include_prompt_in_result=False)
        return [len(result.sequences_ids[0]) for result in results]

    report(generate, batch, prompt, completion)


main()
