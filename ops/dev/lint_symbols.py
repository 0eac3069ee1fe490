"""Reads the built objects and fails on a global symbol without its file's prefix, on variable data
outside any struct, and on a libm call in kernels that is not correctly rounded everywhere.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "release"
LAYERS = ("schemas", "kernels", "engine", "consumer")
TIERS = {"kernels/reference": ("reference",), "kernels/x86/avx2": ("avx2",),
         "kernels/x86/avx512": ("avx512",)}
# A signal handler has nothing but a static variable to leave its message in.
MAY_HOLD_STATE = {"consumer/shutdown.c"}
VARIABLE_SECTIONS = re.compile(r"^(\.data|\.bss|\.tdata|\.tbss|\*COM\*)(\.(?!rel\.ro).*)?$")
ROUNDED_ALIKE = {"fmaf", "fma", "sqrtf", "sqrt", "rintf", "rint"}
LIBM = re.compile(
    r"^(a?(sin|cos|tan)h?|atan2|sincos|exp(2|10|m1)?|log(2|10|1p|b)?|pow|cbrt|hypot|fmod|remainder"
    r"|l?lround|round|l?lrint|nearbyint|ldexp|scalbn|tgamma|lgamma|erfc?|fma|sqrt|rint)[fl]?$")


def prefixes(source):
    path = pathlib.PurePosixPath(source)
    folder = path.parent.as_posix()
    if folder in TIERS:
        return TIERS[folder]
    return (path.stem, "x86") if folder == "kernels/x86" else (path.stem,)


def symbols(objects):
    """Yields (source, name, class, section) of every symbol."""
    listing = subprocess.run(["nm", "-f", "sysv", *map(str, objects)], capture_output=True,
                             text=True, check=True).stdout
    source = None
    for line in listing.splitlines():
        heading = re.match(r"^(?:Undefined s|S)ymbols from (.*?)(?:\[.*\])?:$", line)
        if heading:
            path = pathlib.Path(heading[1]).resolve().relative_to(BUILD.resolve())
            source = path.as_posix().removesuffix(".o")
        parts = [part.strip() for part in line.split("|")]
        if len(parts) == 7 and parts[0] != "Name":
            yield source, parts[0], parts[2], parts[6]


def complaint(source, name, kind, section):
    if kind == "U":
        if source.startswith("kernels/") and LIBM.match(name) and name not in ROUNDED_ALIKE:
            return f"calls {name}: libm results differ between machines"
        return None
    if VARIABLE_SECTIONS.match(section) and source not in MAY_HOLD_STATE:
        return f"{name} is variable data outside any struct ({section})"
    if kind.isupper() and name != "main":
        wanted = prefixes(source)
        if not any(name == prefix or name.startswith(prefix + "_") for prefix in wanted):
            return f"global symbol {name} does not start with {' or '.join(p + '_' for p in wanted)}"
    return None


def main():
    objects = [BUILD / f"{path.relative_to(ROOT)}.o" for layer in LAYERS
               for path in sorted((ROOT / layer).rglob("*.c"))]
    unbuilt = [path for path in objects if not path.exists()]
    if unbuilt or not objects:
        print(f"not built: {', '.join(map(str, unbuilt)) or 'nothing to check'}")
        return 1
    bad = 0
    for source, name, kind, section in symbols(objects):
        said = complaint(source, name, kind, section)
        if said:
            print(f"{source}: {said}")
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
