#!/usr/bin/env python3
"""Writes html_entities.inc beside itself: the named character references as Python's html.unescape knows them."""
import html.entities
import pathlib

HEAD = """// HTML5's named character references, sorted by name; the ones that need no semicolon are there without it too.
// Written by make_html_entities.py from Python's html.entities.html5. Values are UTF-8.
// clang-format off
"""


def literal(text: str) -> str:
    escaped = "".join(
        chr(b) if 0x20 < b < 0x7F and chr(b) not in '"\\?' else f"\\{b:03o}" for b in text.encode()
    )
    return f'"{escaped}"'


def main() -> None:
    lines, line = [], ""
    for name, value in sorted(html.entities.html5.items()):
        entry = f'{{"{name}", {literal(value)}}},'
        if len(line) + len(entry) + 1 > 108:
            lines.append(line)
            line = ""
        line += (" " if line else "") + entry
    text = HEAD + "\n".join([*lines, line]) + "\n// clang-format on\n"
    pathlib.Path(__file__).with_name("html_entities.inc").write_text(text, encoding="ascii")


if __name__ == "__main__":
    main()
