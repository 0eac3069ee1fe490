#!/usr/bin/env bash
# All lint steps; each counts as one test. `lint.sh STEP...` runs only those.
# Needs the release objects and compile_commands.json: `make lint` builds both.
set -uo pipefail
cd "$(dirname "$0")/../.."

ALL_STEPS="format includes symbols headers text scripts packaging docs tidy"
PYTHON=${PYTHON:-python3}

c_files() {
    git ls-files --cached --others --exclude-standard -- '*.c' '*.h' '*.cpp' '*.cu' |
        while read -r path; do [ ! -f "$path" ] || echo "$path"; done
}

lint_format() {
    local output
    output=$(c_files | xargs -r -n 40 -P 2 clang-format-14 --dry-run -Werror 2>&1) && return
    echo "not formatted ('make format' mends it):"
    printf '%s\n' "$output" | sed -nE 's/^([^ ]+:[0-9]+):[0-9]+: error: .*/\1/p' | sort -uV
    return 1
}
lint_includes() { "$PYTHON" ops/dev/lint_includes.py; }
lint_symbols() { "$PYTHON" ops/dev/lint_symbols.py; }
lint_headers() { "$PYTHON" ops/dev/lint_headers.py; }
lint_text() { "$PYTHON" ops/dev/lint_text.py; }
lint_scripts() {
    local path status=0
    for path in $(git ls-files --cached --others --exclude-standard -- '*.sh' .ci/run); do
        bash -n "$path" || status=1
        [ -x "$path" ] || { echo "$path is not executable"; status=1; }
    done
    git ls-files -z --cached --others --exclude-standard -- '*.py' |
        xargs -0 -r "$PYTHON" -c 'import ast, sys; [ast.parse(open(p).read(), p) for p in sys.argv[1:]]' || status=1
    return $status
}
lint_docs() {
    build/solfleet config --markdown | diff ops/CONFIGURATION.md - ||
        { echo "ops/CONFIGURATION.md is out of date: run 'make docs'"; return 1; }
}
lint_packaging() { .deps/venv/bin/python ops/dev/lint_packaging.py; }
lint_tidy() { "$PYTHON" ops/dev/lint_tidy.py; }

passed=0 failed=0
for step in ${*:-$ALL_STEPS}; do
    started=$EPOCHREALTIME
    if output=$("lint_$step" 2>&1); then
        passed=$((passed + 1)) word=ok
    else
        failed=$((failed + 1)) word=FAIL
    fi
    [ $word = ok ] || printf '%s\n' "$output" | sed 's/^/    /'
    awk -v w=$word -v s="$step" -v a="$started" -v b="$EPOCHREALTIME" \
        'BEGIN { printf "  %-4s  lint/%s (%.1f s)\n", w, s, b - a }'
done
echo "$passed passed, $failed failed, 0 skipped"
[ $failed -eq 0 ]
