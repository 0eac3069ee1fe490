"""Checks docker-compose.yml and the Dockerfiles as far as that goes without an engine: they parse,
and what they name exists.
"""

import pathlib
import re
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
INSTRUCTIONS = {"FROM", "RUN", "WORKDIR", "COPY", "USER", "STOPSIGNAL", "ENTRYPOINT", "CMD", "ENV",
                "ARG", "LABEL", "EXPOSE", "HEALTHCHECK", "VOLUME", "SHELL"}


def compose_complaints(path):
    document = yaml.safe_load(path.read_text())
    services = document["services"]
    for name, service in services.items():
        if "image" not in service and "build" not in service:
            yield f"{name} has neither image nor build"
        dockerfile = service.get("build", {}).get("dockerfile")
        if dockerfile and not (ROOT / dockerfile).is_file():
            yield f"{name}: {dockerfile} does not exist"
        for needed, how in service.get("depends_on", {}).items():
            if needed not in services:
                yield f"{name} depends on {needed}, which is no service"
            elif how["condition"] == "service_healthy" and "healthcheck" not in services[needed]:
                yield f"{name} waits for the health of {needed}, which has no check"
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if not source.startswith((".", "/")) and source not in document["volumes"]:
                yield f"{name}: volume {source} is not declared"


def dockerfile_complaints(path):
    text = re.sub(r"^\s*#.*\n", "", path.read_text(), flags=re.MULTILINE)
    text = re.sub(r"\\\n", " ", text)
    stages = set(re.findall(r"^FROM \S+ AS (\S+)$", text, re.MULTILINE))
    if not re.match(r"\s*(ARG .*\n)*FROM ", text):
        yield "does not start with FROM"
    for line in filter(str.strip, text.splitlines()):
        if line.split()[0] not in INSTRUCTIONS:
            yield f"unknown instruction: {line[:60]}"
        for stage in re.findall(r"--from=(\S+)", line):
            if stage not in stages:
                yield f"no stage {stage}"


def main():
    bad = 0
    for path, check in [(ROOT / "docker-compose.yml", compose_complaints),
                        *((path, dockerfile_complaints) for path in ROOT.glob("ops/Dockerfile*"))]:
        for said in check(path):
            print(f"{path.relative_to(ROOT)}: {said}")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
