#!/usr/bin/env python3
"""Writes engine/unicode_tables.c: which code points are letters, numbers and white space.

The source is the Unicode Character Database as the PyPI package unicodedata2 16.0.0 carries it.
That is the version which the regular expressions of the `tokenizers` library know, so a boundary
between words falls where the reference puts it (tests/golden/make_tokenizer.py compares
every code point).

    pip install unicodedata2==16.0.0
    ops/dev/make_unicode_tables.py > engine/unicode_tables.c
"""

import sys

import unicodedata2

VERSION = "16.0.0"
CODE_POINTS = 0x110000


def is_letter(code_point):
    return unicodedata2.category(chr(code_point))[0] == "L"


def is_number(code_point):
    return unicodedata2.category(chr(code_point))[0] == "N"


def is_space(code_point):
    """The property White_Space: every separator, tab to carriage return, and next line."""
    separator = unicodedata2.category(chr(code_point))[0] == "Z"
    return separator or 0x09 <= code_point <= 0x0D or code_point == 0x85


def ranges_of(predicate):
    ranges = []
    for code_point in range(CODE_POINTS):
        if 0xD800 <= code_point <= 0xDFFF or not predicate(code_point):
            continue
        if ranges and ranges[-1][1] == code_point - 1:
            ranges[-1][1] = code_point
        else:
            ranges.append([code_point, code_point])
    return ranges


def print_table(name, ranges):
    print(f"\nconst struct unicode_range unicode_tables_{name}[] = {{")
    per_line = 4
    for i in range(0, len(ranges), per_line):
        line = ", ".join(f"{{0x{low:05X}, 0x{high:05X}}}" for low, high in ranges[i : i + per_line])
        print(f"    {line},")
    print("};")
    print(f"const size_t unicode_tables_{name}_count =")
    print(f"    sizeof unicode_tables_{name} / sizeof unicode_tables_{name}[0];")


def main():
    if unicodedata2.unidata_version != VERSION:
        sys.exit(f"needs Unicode {VERSION}, found {unicodedata2.unidata_version}")
    print("/* Written by ops/dev/make_unicode_tables.py from Unicode " + VERSION + ". Do not edit. */")
    print("/* clang-format off */")
    print('#include "engine/unicode_tables.h"')
    print_table("letters", ranges_of(is_letter))
    print_table("numbers", ranges_of(is_number))
    print_table("spaces", ranges_of(is_space))


if __name__ == "__main__":
    main()
