#!/usr/bin/env python3
"""Compares the public names of the library and of the server's API with those in tests/golden/api.

usage: tests/api_test.py LIBRARY [--write]

LIBRARY is a built libsaccade.so. Two lists have one name a line:

- library.txt: functions that the library exports and a public header (src/saccade/*.h) declares, demangled. Both versions of
  g++ give the same ones: standard types have their usual names, and what the compiler instantiates is left out.
- http.txt: routes, parameters, fields and values of src/saccade/serve/formats/openapi.json.

A name of a list that is gone is a fault (exit code 1). New names are printed. --write makes both lists anew, which is right for
a release, and after a name was removed on purpose (docs/library.md, "Versions").
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LISTS = ROOT / "tests" / "golden" / "api"
DOCUMENT = ROOT / "src" / "saccade" / "serve" / "formats" / "openapi.json"
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
# How the standard library's types are spelled in symbols, and in programs.
SPELLINGS = [
    (" >", ">"),  # first: not every version of nm puts a space there
    ("[abi:cxx11]", ""),
    ("std::filesystem::__cxx11::", "std::filesystem::"),
    ("std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>", "std::string"),
    ("std::basic_string_view<char, std::char_traits<char>>", "std::string_view"),
    (", 18446744073709551615ul>", ">"),
]


def usual(symbol):
    for written, usual_one in SPELLINGS:
        symbol = symbol.replace(written, usual_one)
    return symbol


def declared(symbol, words):
    """True if the headers have all parts of a function's name: saccade::Encoder::load(...)."""
    name = symbol.partition("(")[0]
    return all(part.lstrip("~") in words for part in name.split("::") if not part.startswith("operator"))


def library_names(library):
    table = subprocess.run(["nm", "-DC", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    headers = "".join(path.read_text() for path in sorted((ROOT / "src" / "saccade").glob("*.h")))
    words = set(re.findall(r"\w+", headers))
    names = set()
    for line in table.splitlines():
        # Functions alone: other kinds depend on what a compiler puts in line. States are private.
        match = re.fullmatch(r"[0-9a-f]+ T (saccade::.*)", line)
        name = usual(match[1]) if match else ""
        if name and "::State" not in name and declared(name, words):
            names.add(name)
    return names


def schema_names(schema, where):
    for field, inner in schema.get("properties", {}).items():
        yield f"{where}.{field}"
        yield from schema_names(inner, f"{where}.{field}")
    for value in schema.get("enum", []):
        yield f"{where} = {json.dumps(value)}"
    if "items" in schema:
        yield from schema_names(schema["items"], f"{where}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from schema_names(schema["additionalProperties"], f"{where}.*")
    for one in schema.get("anyOf", []):
        yield from schema_names(one, where)


def http_names():
    document = json.loads(DOCUMENT.read_text())
    names = set()
    for path, item in document["paths"].items():
        for method in METHODS:
            if method not in item:
                continue
            route, operation = f"{method.upper()} {path}", item[method]
            names.add(route)
            for parameter in item.get("parameters", []) + operation.get("parameters", []):
                where = f"{route} {parameter['in']} {parameter['name']}"
                names |= {where, *schema_names(parameter["schema"], where)}
            names |= {f"{route} {status}" for status in operation["responses"]}
            bodies = {"body": operation.get("requestBody", {}), **operation["responses"]}
            for place, body in bodies.items():
                for kind, content in body.get("content", {}).items():
                    where = f"{route} {place} {kind}"
                    names |= {where, *schema_names(content.get("schema", {}), where)}
    for name, schema in document["components"]["schemas"].items():
        names |= {name, *schema_names(schema, name)}
    return names


def main(library, *options):
    code = 0
    for kind, names in {"library": library_names(library), "http": http_names()}.items():
        path = LISTS / f"{kind}.txt"
        if "--write" in options:
            path.write_text("".join(name + "\n" for name in sorted(names)))
            continue
        listed = set(path.read_text().splitlines())
        if not listed or not names:
            sys.exit(f"{path if names else library}: there are no names")
        for name in sorted(names - listed):
            print(f"new: {name}")
        for name in sorted(listed - names):
            print(f"gone: {name}", file=sys.stderr)
            code = 1
    if code:
        print(
            "Public names are gone. Programs and clients use them: keep them, deprecated, for a minor version.\n"
            f"If they go on purpose, name them in CHANGELOG.md and run tests/api_test.py {library} --write",
            file=sys.stderr,
        )
    return code


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--write"]):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
