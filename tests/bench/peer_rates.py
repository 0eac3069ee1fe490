"""How a library that answers whole batches is measured: one token against all of them.

Prompts are random ids, other ones for each call, so that no cache of prefixes helps. Standard
library only: it runs in the interpreters of the peers."""

import json
import random
import resource
import time


def report(generate, batch, prompt, completion):
    """`generate(prompts, tokens)` answers lists of ids with exactly `tokens` ids each and gives
    how many it gave."""
    draw = random.Random(1)

    def seconds(tokens):
        prompts = [[draw.randrange(1000, 40000) for _ in range(prompt)] for _ in range(batch)]
        began = time.monotonic()
        counts = generate(prompts, tokens)
        spent = time.monotonic() - began
        assert counts == [tokens] * batch, counts
        return spent

    seconds(2)
    first, whole = seconds(1), seconds(completion)
    print(json.dumps({"prefill_tokens_per_s": batch * prompt / first,
                      "decode_tokens_per_s": batch * (completion - 1) / (whole - first),
                      "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
