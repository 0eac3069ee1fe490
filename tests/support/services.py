"""Private real servers for tests: a Kafka broker, a redis-server, any program under test.

Each lives on a free port of 127.0.0.1 in a folder of its own, in its own process group, and dies
with the process that started it. Only the standard library is used, so that `make deps` can run
this file before anything is installed.
"""

import contextlib
import ctypes
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
KAFKA = (ROOT / ".deps" / "kafka").resolve()
KAFKA_ARCHIVE = KAFKA / "classes.jsa"
KAFKA_FORMATTED = KAFKA / "formatted"
PROPERTIES = pathlib.Path(__file__).with_name("kafka.properties")
CLUSTER_ID = "c29sZmxlZXQtdGVzdHM0MQ"
PORTS = range(10000, 30000)
START_TIMEOUT_S = 60
PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent():
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def free_port():
    """A port of 127.0.0.1 that nobody listens on. Below the range that the kernel gives to outgoing
    connections: such a one could take it before the server is up, or while it is restarted."""
    for port in random.SystemRandom().sample(PORTS, 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError(f"100 ports of {PORTS} are taken")


def wait_until(condition, timeout_s, what, step_s=0.02):
    """Returns the first truthy value of condition(); raises TimeoutError naming `what`."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout_s} s: {what}")
        time.sleep(step_s)


class Program:
    """One child process with its output in a file."""

    def __init__(self, command, log_path, env=None, cwd=None):
        self.command = [str(word) for word in command]
        self.log_path = pathlib.Path(log_path)
        self.env = {**os.environ, **(env or {})}
        self.cwd = cwd
        self.process = None

    def start(self):
        assert not self.alive(), f"already running: {self.command}"
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                env=self.env, cwd=self.cwd, start_new_session=True, preexec_fn=_die_with_parent)
        return self

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def pause(self):
        self.signal(signal.SIGSTOP)

    def resume(self):
        self.signal(signal.SIGCONT)

    def wait(self, timeout_s=30):
        return self.process.wait(timeout_s)

    def kill(self):
        """As a crash: no chance to say goodbye."""
        if self.process is not None:
            self.signal(signal.SIGKILL)
            self.process.wait(10)

    def stop(self, timeout_s=20):
        """SIGTERM, then SIGKILL; returns the exit status."""
        if self.process is None:
            return None
        if self.alive():
            self.resume()
            self.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout_s)
        self.kill()
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def _await_start(self, ready, what):
        def settled():
            if not self.alive():
                raise RuntimeError(f"{what} ended at start:\n{self.log()[-4000:]}")
            return ready()
        try:
            wait_until(settled, START_TIMEOUT_S, f"{what} is up")
        except BaseException:
            self.kill()
            raise
        return self


class RedisServer(Program):
    def __init__(self, folder, *options):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        super().__init__(
            ["redis-server", "--port", self.port, "--bind", "127.0.0.1", "--dir", self.folder,
             "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction", *options],
            self.folder / "redis.log", cwd=self.folder)

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def start(self):
        super().start()
        return self._await_start(self.answers, "redis-server")

    def answers(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as link:
                link.sendall(b"PING\r\n")
                return link.recv(16).startswith(b"+PONG")
        except OSError:
            return False


def _java(main_class, *arguments, archive=None, extra=()):
    jars = ":".join(str(jar) for jar in sorted((KAFKA / "libs").glob("*.jar")))
    if not jars:
        raise RuntimeError("no Kafka: run 'make deps'")
    shared = ["-Xshare:auto", f"-XX:SharedArchiveFile={archive}"] if archive else []
    return ["java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *shared, *extra,
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=info", "-cp", jars, main_class, *arguments]


class KafkaServer(Program):
    """A one-node KRaft broker; data survive kill() and a second start()."""

    def __init__(self, folder, extra_java=(), archive=KAFKA_ARCHIVE):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.properties = self.folder / "server.properties"
        self.log_dir = self.folder / "data"
        text = PROPERTIES.read_text()
        for name, value in (("port", self.port), ("controller_port", free_port()),
                            ("log_dir", self.log_dir)):
            text = text.replace("{" + name + "}", str(value))
        self.properties.write_text(text)
        super().__init__(
            _java("kafka.Kafka", self.properties, archive=archive, extra=extra_java),
            self.folder / "kafka.log", cwd=self.folder)

    @property
    def brokers(self):
        return f"127.0.0.1:{self.port}"

    def add_listener(self, advertised_port, name="PROXIED"):
        """One more listener, whose clients are told to come by `advertised_port`, a proxy's say.
        Before the start. Returns its own port."""
        port = free_port()
        lines = []
        for line in self.properties.read_text().splitlines():
            key = line.split("=")[0]
            line += {"listeners": f",{name}://127.0.0.1:{port}",
                     "advertised.listeners": f",{name}://127.0.0.1:{advertised_port}",
                     "listener.security.protocol.map": f",{name}:PLAINTEXT"}.get(key, "")
            lines.append(line)
        self.properties.write_text("\n".join(lines) + "\n")
        return port

    def set_property(self, name, value):
        """Before the start."""
        with open(self.properties, "a", encoding="utf-8") as properties:
            properties.write(f"{name}={value}\n")

    def format(self):
        done = subprocess.run(
            _java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self.properties)),
            capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"cannot format Kafka's folder: {done.stdout}{done.stderr}")

    def start(self):
        if not self.log_dir.exists():
            if KAFKA_FORMATTED.exists():
                shutil.copytree(KAFKA_FORMATTED, self.log_dir)
            else:
                self.format()
        said = self.log().count("Kafka Server started")
        super().start()
        return self._await_start(
            lambda: self.log().count("Kafka Server started") > said, "Kafka")


def prepare_kafka():
    """Once per installation: a formatted folder to copy, and an archive of the loaded classes."""
    for old in (KAFKA_ARCHIVE, KAFKA_FORMATTED):
        if old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        server = KafkaServer(folder, (f"-XX:ArchiveClassesAtExit={KAFKA_ARCHIVE}",), archive=None)
        server.format()
        shutil.copytree(server.log_dir, KAFKA_FORMATTED)
        with server.start():
            server.stop(timeout_s=60)
    if not KAFKA_ARCHIVE.exists():
        sys.exit(f"the JVM wrote no class archive:\n{server.log()[-2000:]}")


if __name__ == "__main__":
    if sys.argv[1:] != ["prepare-kafka"]:
        sys.exit("usage: services.py prepare-kafka")
    prepare_kafka()
