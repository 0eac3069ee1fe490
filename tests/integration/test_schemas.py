"""The published JSON Schemas: they are sound, and take and refuse what the C side does.

The examples are the link: the unit tests decode or write the very same files.
"""

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


INVALID = [(kind, line["why"], line["value"]) for kind in KINDS
           for line in map(json.loads,
                           (V1 / "examples" / "invalid" / f"{kind}.jsonl").read_text().splitlines())]


@pytest.mark.parametrize("kind, value", [(kind, value) for kind, _, value in INVALID],
                         ids=[f"{kind}: {why}" for kind, why, _ in INVALID])
def test_refuses(kind, value):
    assert not validator(kind).is_valid(value)


@pytest.mark.parametrize("kind", KINDS)
def test_has_invalid_examples_and_one_of_a_later_version(kind):
    assert sum(found == kind for found, _, _ in INVALID) >= 8
    assert "of_a_later_version" in (V1 / "examples" / f"{kind}_later.json").read_text()


def test_takes_null_for_what_is_optional():
    job = example("job_prompt")
    job["params"] = {name: None for name in SCHEMAS["job"]["$defs"]["params"]["properties"]}
    required = {"request_id", "prompt"}
    job |= {name: None for name in SCHEMAS["job"]["properties"] if name not in required}
    validator("job").validate(job)
    validator("job").validate({**job, "of_a_later_version": 1})
