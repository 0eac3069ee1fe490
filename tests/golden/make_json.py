#!/usr/bin/env python3
"""Makes documents that readers of JSON disagree on, with what Python's reader says of each.

Writes json/verdicts.tsv, a line each: verdict, document, what it reads as. Bytes outside printable
ASCII, and backslashes, are written \\xNN. The verdict is `ok`, or the code that the wire contract
has for it; the order of the checks is the contract's too: UTF-8, JSON, fields (a key that stands
twice, U+0000, half of a surrogate pair). What it reads as is the document written compactly, its
numbers digit for digit. Numbers longer than our reader takes, and deep nesting, are left out.
"""
import json
import pathlib
import random

OUT = pathlib.Path(__file__).resolve().parent / "json" / "verdicts.tsv"
MUTATIONS = 500

BY_HAND = [
    # numbers
    *("0 -0 1 -1 10 01 -01 00 0.0 0. .0 -.5 1. 1.e1 1e 1e+ 1e- 1e+1 1E-1 1e01 +1 -+1 --1 - -a 0x1 1f"
      " 1d 1L 1_0 1e5e5 1.5.5 1-2 1+2 1e1.5 1e400 -1e400 1e-400 9007199254740993 0e0 -0e-0 0.1e1"
      " 18446744073709551616 0.30000000000000004 NaN -NaN Infinity -Infinity inf nan 1e١ ١").split(),
    # words
    *"null true false nul nulll truefalse True NULL nullnull undefined none t".split(),
    # white space and what only looks like it
    " 1 ", "\t1\n\r", "\v1", "1\f", "\x001", "1\x00", "\xa01", "\u30001", "\ufeff1", "1\ufeff",
    "\u20281", "[1\x00]", "[\x1f1]", "[ ]", "{ }", "[\x7f]", "", " ", "\n", "//1", "1//", "/**/1", "#",
    # structure
    *("[ ] { } [] {} [[]] [{}] [[] [1, [1,] [,] [,1] [1,,2] [1;2] [1:2] ]1[ [1}] {1} {1:2} {:1} {,} {a:1} [}"
      " {] [1]] {}} {}{} [][] 1,2 ,1 1, : [1] x").split(),
    "[1 2]", "1 2", '{"a"}', '{"a":}', '{"a":1,}', '{"a" 1}', '{"a":1 "b":2}', '{"a":1;"b":2}',
    '{"a"::1}', '{"a":1:2}', '{"a",1}', "{'a':1}", '{"a":1]', '["a":1]', '{null:1}', '{"a":1,"b":2,"c":[{}]}',
    '{"":{"":""}}', '"a" "b"', '{"a":1}{', '["a""b"]', '["a",]', '"a', 'a"', '"', '""""', '["]', '{"a":"b}',
    # strings
    *(f'"{c}"' for c in map(chr, [1, 8, 9, 10, 13, 31, 32, 127, 128, 0xa0, 0x2028, 0xfffe, 0x1f600])),
    *(rf'"\{c}"' for c in "\"\\/bfnrtuUaxv0'e \n"),
    *(rf'"{u}"' for u in r"""\u0041 \u00e9 \u9898 \uFFFF \ufffe \u0 \u00 \u004 \u004g \ug041 \u-041 \u+041
      \u 0041 \u00\u41 \U0041 \u0000 a\u0000b \ud800 \udc00 \udfff \udbff \ud800\udc00 \udbff\udfff
      \uD83D\uDE00 \ud83d\ud83d \ude00\ud83d \ud83dx \ud83d\n \ud83d\u0041 \ud83d\u00 \ud83d\ud83d\ude00
      \\ud800 \\u0000 \\\ud800 \\u12 \\\u12 x\\ x\\\\ \"\\\"""".split()),
    '"\\', '"\\"', '"\\u', '"\\u0', '"\\u004', '"\\u0041', '"\\ud83d\\', '"\\ud83d\\u', '"\x00"', '"a\x00b"',
    # keys
    '{"a":1,"a":1}', '{"a":1,"A":1}', '{"a":1,"\\u0061":2}', '{"a":{"a":1}}', '[{"a":1},{"a":1}]',
    '{"a":{"b":1,"b":2}}', '{"a":1,"b":2,"a":3}', '{"":1,"":2}', '{"a\\u0000":1}', '{"a\\u0000":1,"a":2}',
    '{"\\ud800":1}', '{"\\ud800":1,"\\ud801":1}', '{"a":1,"a":}', '{"a":"\\u0000","a":', '["\\ud800"',
]
BYTES = [b"\xff", b'"\xff"', b'"\xc0\x80"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\xe9\xa2"', b"\xe9\xa2\x98",
         b'"\xe9\xa2\x98"', b"\xef\xbb\xbf", b"\xef\xbb\xbf{}", b"{}\xef\xbb\xbf", b"\xff\xfe1\x00", b'{"\xe9":1}',
         b'[1}\xff', b'{"a":1,"a":"\xff"}']
SEEDS = [
    '{"a":[1,-2.5e+3,true,null],"b":{"c":"x\\u9898\\n","d":[]},"e":"题"}',
    '[0.5, {"k" : "\\ud83d\\ude00\\\\"} , "\\"", -0, 1E2 ,false]',
    '{"request_id":"r","params":{"seed":42,"stop":["a","b"]}}',
]
ALPHABET = [b"", *(bytes([c]) for c in b'"\\{}[]:,0-+.eEu1 \n\t\x00\x0b\x1f/\'x'), b"\\u", b"\\ud800", b"\xff",
            b"\xc2\xa0", b'"a":1,', b"null"]


class Number(str):
    """A number as it was written."""


class Field(Exception):
    """Well-formed, but not acceptable."""


def refuse_word(word):
    raise ValueError(word)


def compact(value):
    """Values come as Number, str, bool, None, list and, for objects, tuples of pairs."""
    if isinstance(value, Number) or value is None or isinstance(value, bool):
        return str(value) if isinstance(value, Number) else json.dumps(value)
    if isinstance(value, str):
        if "\0" in value or any("\ud800" <= c <= "\udfff" for c in value):
            raise Field
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return "[" + ",".join(map(compact, value)) + "]"
    if len({key for key, _ in value}) != len(value):
        raise Field
    return "{" + ",".join(f"{compact(key)}:{compact(member)}" for key, member in value) + "}"


def verdict(document):
    try:
        text = document.decode("utf-8")
    except UnicodeDecodeError:
        return "invalid_utf8", ""
    try:
        value = json.loads(text, parse_int=Number, parse_float=Number, parse_constant=refuse_word,
                           object_pairs_hook=tuple)
    except ValueError:
        return "invalid_json", ""
    try:
        return "ok", compact(value)
    except Field:
        return "invalid_field", ""


def mutated(rng):
    document = rng.choice(SEEDS).encode()
    for _ in range(rng.choice([1, 1, 1, 2])):
        at = rng.randrange(len(document) + 1)
        document = document[:at] + rng.choice(ALPHABET) + document[at + rng.choice([0, 0, 1, 1, 3]):]
    return document


def escaped(text):
    return "".join(chr(b) if 32 <= b < 127 and b != 92 else f"\\x{b:02x}" for b in text)


def main():
    rng = random.Random(20261129)
    documents = dict.fromkeys([text.encode() for text in BY_HAND + SEEDS] + BYTES)
    wanted = len(documents) + MUTATIONS
    while len(documents) < wanted:
        documents.setdefault(mutated(rng))
    OUT.parent.mkdir(exist_ok=True)
    with OUT.open("w", newline="\n") as out:
        for document in documents:
            code, reading = verdict(document)
            out.write(f"{code}\t{escaped(document)}\t{escaped(reading.encode())}\n")


if __name__ == "__main__":
    main()
