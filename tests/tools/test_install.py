"""`make install`: what a package would ship, at the place it was asked for."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_installs_under_prefix_and_destdir(tmp_path):
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS")}
    subprocess.run(["make", "install", "PREFIX=/usr", f"DESTDIR={tmp_path}"], cwd=ROOT, check=True,
                   capture_output=True, env=env)
    files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert "usr/bin/solfleet" in files
    assert "usr/share/solfleet/schemas/v1/job.schema.json" in files
    assert {"usr/share/doc/solfleet/LICENSE", "usr/share/doc/solfleet/README.md"} <= files
    assert all(name.startswith("usr/") for name in files)
    installed = tmp_path / "usr/bin/solfleet"
    done = subprocess.run([installed, "--help"], check=True, capture_output=True, text=True)
    assert "usage: solfleet" in done.stdout
