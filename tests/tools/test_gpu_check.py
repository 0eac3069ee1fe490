"""The check of a real card, with a card and tests that are only played: it says what failed, goes
on where it ended, and starts anew for another card."""

import json
import os
import pathlib
import stat
import subprocess
import sys

import pytest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "ops" / "dev" / "gpu_check.py"

# Lists two cases; each run is noted, and ends as the file named after the case says.
TEST = """#!/bin/sh
if [ "$1" = --list ]; then echo one; echo two; exit 0; fi
echo "$1" >> {folder}/runs
cat {folder}/says_$1 2>/dev/null
exit $(cat {folder}/status_$1 2>/dev/null || echo 0)
"""


class Played:
    def __init__(self, folder):
        self.folder = folder
        self.build = folder / "build"
        (self.build / "tests").mkdir(parents=True)
        self.program(self.build / "tests" / "test_cuda_x", TEST.format(folder=folder))
        self.program(self.build / "solfleet", "#!/bin/sh\n")
        self.card("Card 1, 580.1, 9.0")

    @staticmethod
    def program(path, text):
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def card(self, name, status=0):
        (self.folder / "bin").mkdir(exist_ok=True)
        self.program(self.folder / "bin" / "nvidia-smi",
                     f"#!/bin/sh\necho '{name}'\nexit {status}\n")

    def says(self, case, text="", status=0):
        (self.folder / f"says_{case}").write_text(text)
        (self.folder / f"status_{case}").write_text(str(status))

    def check(self, *arguments):
        path = f"{self.folder / 'bin'}:/usr/bin:/bin"
        return subprocess.run([sys.executable, SCRIPT, self.build, *arguments], capture_output=True,
                              text=True, check=False, env={**os.environ, "PATH": path})

    def runs(self):
        path = self.folder / "runs"
        ran = path.read_text().split() if path.exists() else []
        path.unlink(missing_ok=True)
        return ran


@pytest.fixture
def played(tmp_path):
    return Played(tmp_path)


def last_line(done):
    return done.stdout.splitlines()[-1]


def test_says_what_passed_failed_and_was_skipped(played):
    played.says("one", "[skip] one: needs the emulated device\n")
    played.says("two", "it was 3, not 4\n", status=1)
    done = played.check()
    assert done.returncode == 1
    assert last_line(done) == "0 passed, 1 failed, 1 skipped"
    assert "it was 3, not 4" in done.stdout
    kept = json.loads((played.build / "gpu-check.json").read_text())
    assert kept["card"] == "Card 1, 580.1, 9.0"
    assert kept["parts"]["cuda_x:one"]["reason"] == "one: needs the emulated device"


def test_runs_again_only_what_has_not_passed(played):
    played.says("two", status=1)
    assert played.check().returncode == 1
    assert played.runs() == ["one", "two"]
    played.says("two")
    done = played.check()
    assert (done.returncode, last_line(done)) == (0, "2 passed, 0 failed, 0 skipped")
    assert played.runs() == ["two"]
    assert played.check("--fresh").returncode == 0
    assert played.runs() == ["one", "two"]


def test_starts_anew_for_another_card_or_other_binaries(played):
    assert played.check().returncode == 0
    played.runs()
    played.card("Card 2, 580.1, 12.0")
    assert played.check().returncode == 0
    assert played.runs() == ["one", "two"]
    played.program(played.build / "solfleet", "#!/bin/sh\nexit 0\n")
    assert played.check().returncode == 0
    assert played.runs() == ["one", "two"]


def test_stops_between_parts_when_its_time_is_over(played):
    done = played.check("--limit-s", "-1")
    assert done.returncode == 75
    assert "2 parts are left" in done.stdout and played.runs() == []
    assert played.check().returncode == 0


def test_without_a_card_it_says_so(played):
    played.card("could not communicate with the NVIDIA driver", status=9)
    done = played.check()
    assert done.returncode == 6
    assert "no CUDA device: could not communicate with the NVIDIA driver" in done.stderr


def test_a_model_is_verified_and_measured(played, tmp_path):
    played.program(played.build / "solfleet",
                   f"#!/bin/sh\necho \"$1\" >> {tmp_path}/runs\n[ $1 = bench ] && exit 0\n"
                   "echo 'DIFFERENT first in attention'\nexit 1\n")
    done = played.check("--model", str(tmp_path / "m.gguf"))
    assert done.returncode == 1
    assert played.runs() == ["one", "two", "verify", "bench"]
    assert "FAILED  verify:m.gguf" in done.stdout and "first in attention" in done.stdout
    assert last_line(done) == "3 passed, 1 failed, 0 skipped"
