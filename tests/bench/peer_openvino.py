"""OpenVINO GenAI: peer_openvino.py MODEL.gguf THREADS BATCH PROMPT COMPLETION

For the interpreter that has it; prints one JSON document, as peer_rates.py says it."""

import sys

import numpy
import openvino
import openvino_genai

from peer_rates import report


def main():
    model, threads, batch, prompt, completion = sys.argv[1], *map(int, sys.argv[2:6])
    pipeline = openvino_genai.LLMPipeline(model, "CPU", INFERENCE_NUM_THREADS=threads)

    def generate(prompts, tokens):
        ids = numpy.array(prompts, dtype=numpy.int64)
        inputs = openvino_genai.TokenizedInputs(openvino.Tensor(ids),
                                                openvino.Tensor(numpy.ones_like(ids)))
        config = openvino_genai.GenerationConfig(max_new_tokens=tokens, ignore_eos=True,
                                                 do_sample=False)
        return [len(answer) for answer in pipeline.generate(inputs, config).tokens]

    report(generate, batch, prompt, completion)


main()
