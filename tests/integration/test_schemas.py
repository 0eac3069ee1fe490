"""The published JSON Schemas: they are sound, and take and refuse what the C side does.

The examples are the link: the unit tests decode or write the very same files.
"""

import copy
import json
import pathlib

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

V1 = pathlib.Path(__file__).resolve().parents[2] / "schemas" / "v1"
KINDS = ("job", "result", "status", "dead_letter")
EXAMPLES = sorted(V1.glob("examples/*.json"))
SCHEMAS = {kind: json.loads((V1 / f"{kind}.schema.json").read_text()) for kind in KINDS}
REGISTRY = Registry().with_resources(
    (schema["$id"], Resource.from_contents(schema)) for schema in SCHEMAS.values())


def validator(kind):
    return Draft202012Validator(SCHEMAS[kind], registry=REGISTRY)


def kind_of(path):
    return next(kind for kind in KINDS if path.name.startswith(kind))


def example(name):
    return json.loads((V1 / "examples" / f"{name}.json").read_text())


@pytest.mark.parametrize("kind", KINDS)
def test_is_a_sound_schema_whose_examples_pass(kind):
    Draft202012Validator.check_schema(SCHEMAS[kind])
    assert SCHEMAS[kind]["examples"]
    for value in SCHEMAS[kind]["examples"]:
        validator(kind).validate(value)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_takes_the_example(path):
    validator(kind_of(path)).validate(json.loads(path.read_text()))


def changed(value, path, new):
    value = copy.deepcopy(value)
    *parents, last = path
    place = value
    for step in parents:
        place = place[step]
    place[last] = new
    return value


REFUSED = [
    ("job_prompt", ["request_id"], "a b"),
    ("job_prompt", ["request_id"], None),
    ("job_prompt", ["request_id"], "x" * 129),
    ("job_prompt", ["prompt"], " "),
    ("job_prompt", ["prompt"], None),
    ("job_prompt", ["messages"], [{"role": "user", "content": "x"}]),
    ("job_prompt", ["version"], 2),
    ("job_prompt", ["params", "temperature"], 2.1),
    ("job_prompt", ["params", "temperature"], "0.7"),
    ("job_prompt", ["params", "temperature"], True),
    ("job_prompt", ["params", "top_p"], 0),
    ("job_prompt", ["params", "max_tokens"], 0),
    ("job_prompt", ["params", "max_tokens"], 2049),
    ("job_prompt", ["params", "seed"], 2**53),
    ("job_prompt", ["params", "stop"], [""]),
    ("job_prompt", ["params", "stop"], ["x"] * 17),
    ("job_prompt", ["params", "n"], 1),
    ("job_prompt", ["priority"], 10),
    ("job_prompt", ["timeout_ms"], 0),
    ("job_prompt", ["timeout_ms"], 1_700_000_000_000),
    ("job_prompt", ["reply_topic"], ".."),
    ("job_prompt", ["progress"], "all"),
    ("job_prompt", ["metadata"], []),
    ("job_problem", ["problem", "statement"], ""),
    ("job_problem", ["problem", "examples", 0], {"input": "x"}),
    ("job_problem", ["problem", "code_language"], "c c"),
    ("job_messages", ["messages", 1, "role"], "tool"),
    ("job_messages", ["messages"], []),
    ("result_done", ["status"], "finished"),
    ("result_done", ["error"], {"code": "internal", "message": "x"}),
    ("result_done", ["answer_sha256"], "x"),
    ("result_failed", ["error", "code"], "none"),
    ("status_done", ["state"], "finished"),
    ("status_done", ["result", "status"], "finished"),
    ("status_done", ["attempt"], "1"),
    ("dead_letter_field", ["solfleet-code"], "none"),
    ("dead_letter_field", ["solfleet-partition"], 4),
    ("dead_letter_field", ["solfleet-value-bytes"], "4"),
]


@pytest.mark.parametrize("name, path, new", REFUSED)
def test_refuses(name, path, new):
    kind = next(kind for kind in KINDS if name.startswith(kind))
    assert not validator(kind).is_valid(changed(example(name), path, new))


def test_takes_null_for_what_is_optional():
    job = example("job_prompt")
    job["params"] = {name: None for name in SCHEMAS["job"]["$defs"]["params"]["properties"]}
    required = {"request_id", "prompt"}
    job |= {name: None for name in SCHEMAS["job"]["properties"] if name not in required}
    validator("job").validate(job)
    validator("job").validate({**job, "of_a_later_version": 1})
