"""A worker that dies at each of the crash points of `make crash`, and what is left to the next."""

import subprocess

from conftest import CRASH_SOLFLEET


def test_has_no_crash_points_but_in_the_crash_build(solfleet):
    def said(program):
        names = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
        return "crash_point" in names, b"SOLFLEET_CRASH_AT" in program.read_bytes()
    assert said(CRASH_SOLFLEET) == (True, True)
    assert said(solfleet) == (False, False)
