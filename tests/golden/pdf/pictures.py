#!/usr/bin/env python3
"""The pictures inside pages.html: PNG files drawn here, in the folder given."""
import pathlib
import struct
import sys
import zlib


def png(path, width, height, pixel):
    rows = b"".join(b"\0" + b"".join(bytes(pixel(x, y)) for x in range(width)) for y in range(height))
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) +
                     chunk(b"IEND", b""))


folder = pathlib.Path(sys.argv[1])
inside = lambda x, y, cx, cy, r: (x - cx) ** 2 + (y - cy) ** 2 < r * r
# A red disc; around it nothing (transparent black), so that a reader without the mask sees black.
png(folder / "disc.png", 160, 160, lambda x, y: (220, 20, 20, 255) if inside(x, y, 80, 80, 70) else (0, 0, 0, 0))
# A yellow sun in a blue sky over green grass.
png(folder / "sun.png", 200, 150, lambda x, y: (250, 220, 40, 255) if inside(x, y, 140, 45, 30) else
    (90, 160, 240, 255) if y < 100 else (60, 140, 50, 255))
# Green stripes.
png(folder / "stripes.png", 128, 128, lambda x, y: (20, 150, 60, 255) if x // 16 % 2 else (255, 255, 255, 255))
# A logo, and a picture too small to matter.
png(folder / "logo.png", 120, 120, lambda x, y: (x * 2, y * 2, 128, 255))
png(folder / "bullet.png", 16, 16, lambda x, y: (0, 0, 0, 255))
