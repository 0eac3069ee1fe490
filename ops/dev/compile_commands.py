"""Turns the Makefile's list of `source|command@` into compile_commands.json."""

import json
import os
import sys


def main():
    listing, target = sys.argv[1:]
    with open(listing, encoding="utf-8") as file:
        pairs = [entry.strip().split("|", 1) for entry in file.read().split("@") if entry.strip()]
    entries = [{"directory": os.getcwd(), "file": source, "command": " ".join(command.split())}
               for source, command in pairs]
    with open(target, "w", encoding="utf-8") as file:
        json.dump(entries, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
