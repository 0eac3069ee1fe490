#!/usr/bin/env bash
# The whole path on one machine: broker, Redis, one worker, a dozen problems, watched live.
#
#   demo.sh [FILE...]     problems to submit; by default all of ops/demo/problems
#
#   SOLFLEET_BROKERS=host:port   use this Kafka instead of a private broker
#   SOLFLEET_REDIS=redis://...   use this Redis instead of a private one
#   MODEL=FILE                   another model (GGUF)
#   DEMO_MAX_TOKENS=N            longest answer (160)
#
# Everything it starts is stopped when it ends, however it ends.
set -euo pipefail
cd "$(dirname "$0")/../.."

SOLFLEET=${SOLFLEET:-build/solfleet}
MODEL=${MODEL:-models/SmolLM2-135M-Instruct.Q4_1.gguf}
MAX_TOKENS=${DEMO_MAX_TOKENS:-160}
FOLDER=${DEMO_FOLDER:-build/demo}
START_SECONDS=120

say() { printf '%s\n' "$*"; }
fail() {
    printf 'demo: %s\n' "$*" >&2
    exit 1
}

# ---- what is started is stopped ----------------------------------------------------------------
started=()

# Each in a session of its own, so that Ctrl-C reaches this script only and the order of stopping is
# ours; and each dies with this script, should it be killed outright.
start() {
    local log=$1
    shift
    setpriv --pdeathsig TERM setsid "$@" >"$log" 2>&1 </dev/null &
    started=("$!" "${started[@]}")
}

stop_all() {
    local pid tries
    trap '' INT TERM HUP
    for pid in "${started[@]}"; do
        kill -TERM "$pid" 2>/dev/null || continue
        for ((tries = 0; tries < 100; tries++)); do
            kill -0 "$pid" 2>/dev/null || break
            sleep 0.05
        done
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    started=()
}
trap stop_all EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# until_true WHAT LOG COMMAND...: waits, and gives up when the last started process has gone.
until_true() {
    local what=$1 log=$2 pid=${started[0]} deadline=$((SECONDS + START_SECONDS))
    shift 2
    until "$@"; do
        if ! kill -0 "$pid" 2>/dev/null || ((SECONDS > deadline)); then
            tail -n 20 "$log" >&2
            fail "$what did not come up; the end of $log stands above"
        fi
        sleep 0.05
    done
}

# ---- services ----------------------------------------------------------------------------------
start_redis() {
    command -v redis-server >/dev/null || fail "no redis-server: run 'make deps', or set SOLFLEET_REDIS"
    # A socket in our own folder needs no free port and is nobody else's.
    local socket=$SCRATCH/redis.sock
    start "$FOLDER/redis.log" redis-server --port 0 --unixsocket "$socket" --save '' \
        --appendonly no --dir "$SCRATCH"
    until_true redis-server "$FOLDER/redis.log" test -S "$socket"
    export SOLFLEET_REDIS=$socket
}

start_broker() {
    start "$FOLDER/broker.log" "$SOLFLEET" broker --address-file "$SCRATCH/broker"
    until_true 'the broker' "$FOLDER/broker.log" test -s "$SCRATCH/broker"
    SOLFLEET_BROKERS=$(cat "$SCRATCH/broker")
    export SOLFLEET_BROKERS
}

is_ready() { grep -qw ready "$FOLDER/worker.log"; }

start_worker() {
    start "$FOLDER/worker.log" "$SOLFLEET" worker --model "$MODEL" --drain-timeout-ms 2000
    until_true 'the worker' "$FOLDER/worker.log" is_ready
}

# ---- the demo ----------------------------------------------------------------------------------
[ -x "$SOLFLEET" ] || fail "$SOLFLEET is not there: run 'make'"
[ -r "$MODEL" ] || fail "$MODEL is not there: run 'make model', or set MODEL"
[ $# -gt 0 ] || set -- ops/demo/problems/*
mkdir -p "$FOLDER"
SCRATCH=$(mktemp -d)
trap 'stop_all; rm -rf "$SCRATCH"' EXIT

if [ -n "${SOLFLEET_REDIS:-}" ]; then say "Redis: yours"; else start_redis && say "Redis: private, on a socket"; fi
if [ -n "${SOLFLEET_BROKERS:-}" ]; then
    say "Kafka: yours, $SOLFLEET_BROKERS"
    "$SOLFLEET" topics create
else
    start_broker
    say "Kafka: solfleet broker (librdkafka's in-process cluster), $SOLFLEET_BROKERS"
fi
say "Worker: loading $(basename "$MODEL") ..."
start_worker

say "Submitting $# problems, at most $MAX_TOKENS tokens each."
say "So small a model proves the path, not the answers."
say
ids=$("$SOLFLEET" submit "$@" --max-tokens "$MAX_TOKENS" --progress tokens)
status=0
# shellcheck disable=SC2086  # a list of ids
"$SOLFLEET" wait --live $ids || status=$?
[ $status -ne 130 ] || exit 130

first=${ids%%$'\n'*}
if [ $status -eq 0 ]; then
    say
    say "---- the whole answer of $first ----"
    "$SOLFLEET" wait --show "$first"
    say "---- end of the answer ----"
fi

"$SOLFLEET" results --from-beginning --json | grep -F "$ids" >"$FOLDER/results.jsonl" || true
say
say "Results: a line of JSON each in $FOLDER/results.jsonl, as they stood on the topic solfleet.results."
say "Logs: $FOLDER/worker.log, broker.log, redis.log."
say "Your own problem, here and now: $SOLFLEET generate --model $MODEL --problem FILE.md"
exit $status
