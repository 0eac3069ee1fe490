#!/usr/bin/env bash
# Runs every built fuzz target from its committed corpus: fuzz.sh SECONDS (for all together).
# New inputs are kept in build/fuzz/corpus; a crash leaves its input in build/fuzz/artifacts.
set -uo pipefail
cd "$(dirname "$0")/../.."

total=${1:-60}
targets=()
for source in tests/fuzz/fuzz_*.c; do
    targets+=("build/fuzz/${source%.c}")
done
seconds=$((total / ${#targets[@]}))
[ "$seconds" -ge 1 ] || seconds=1
artifacts=build/fuzz/artifacts
# What CI says should depend on the change alone: a fixed seed there, a new one everywhere else.
seed=0
[ "${CI:-}" != true ] || seed=1
passed=0 failed=0
for target in "${targets[@]}"; do
    name=${target##*/fuzz_}
    found=build/fuzz/corpus/$name
    seeds=tests/fuzz/corpus/$name
    mkdir -p "$found" "$artifacts"
    log=build/fuzz/$name.log
    if "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=4096 -seed="$seed" -print_final_stats=1 \
        -artifact_prefix="$artifacts/$name-" "$found" "$seeds" >"$log" 2>&1; then
        passed=$((passed + 1))
        echo "  ok    fuzz/$name ($seconds s, $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") inputs)"
    else
        failed=$((failed + 1))
        tail -n 40 "$log" | sed 's/^/    /'
        echo "  FAIL  fuzz/$name (input in $artifacts)"
    fi
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
