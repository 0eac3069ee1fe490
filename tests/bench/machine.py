"""What the machine did meanwhile: processor time of processes, and the share that others took."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time


def ticks_of(pid):
    words = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(words[11]) + int(words[12])


def ticks_of_all():
    """All ticks of the machine, and those of them in which it did something."""
    ticks = [int(word) for word in
             pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(ticks), sum(ticks) - ticks[3] - ticks[4]


def peak_bytes(pid):
    """The most memory that a living process has had resident."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no VmHWM of {pid}")


class Watch:
    """Time and foreign load from its start. `pids`: whose processor time is not foreign, besides
    that of this process; all of them must live until `stop`."""

    def __init__(self, *pids):
        self.pids = (os.getpid(), *pids)
        self.start = self.read()

    def read(self):
        total, busy = ticks_of_all()
        return time.monotonic(), total, busy, sum(ticks_of(pid) for pid in self.pids)

    def stop(self):
        """Seconds, and the part of the machine's processor time that others took."""
        seconds, total, busy, own = (now - then for now, then in zip(self.read(), self.start))
        return seconds, max(0, busy - own) / total if total else 0


@contextlib.contextmanager
def a_busy_core(core):
    """Another process that wants all of one core."""
    other = subprocess.Popen(["taskset", "-c", str(core), "sh", "-c", "while :; do :; done"],
                             start_new_session=True)
    try:
        yield
    finally:
        os.killpg(other.pid, signal.SIGKILL)
        other.wait()
