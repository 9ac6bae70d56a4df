"""Writes sensor.dng with PiDNG 4.0.9 and preview.dng with tifffile 2026.3.3 (PyPI: pidng, tifffile, imagecodecs)."""
import numpy as np
import tifffile
from pidng.core import RAW2DNG, DNGTags, Tag
from pidng.defs import *
width, height, bits = 240, 160, 12
black, white = 256, 4095
y, x = np.mgrid[0:height, 0:width]
left = x < width // 2
shade = 0.5 + 0.5 * y / height
scene = {"r": np.where(left, 0.8, 0.1) * shade, "g": np.full(x.shape, 0.12) * shade, "b": np.where(left, 0.1, 0.8) * shade}
raw = np.empty((height, width))
raw[0::2, 0::2] = scene["r"][0::2, 0::2]
raw[0::2, 1::2] = scene["g"][0::2, 1::2]
raw[1::2, 0::2] = scene["g"][1::2, 0::2]
raw[1::2, 1::2] = scene["b"][1::2, 1::2]
raw = (black + raw * (white - black)).astype(np.uint16)
t = DNGTags()
t.set(Tag.ImageWidth, width); t.set(Tag.ImageLength, height)
t.set(Tag.TileWidth, width); t.set(Tag.TileLength, height)
t.set(Tag.Orientation, Orientation.Horizontal)
t.set(Tag.PhotometricInterpretation, PhotometricInterpretation.Color_Filter_Array)
t.set(Tag.SamplesPerPixel, 1); t.set(Tag.BitsPerSample, bits)
t.set(Tag.CFARepeatPatternDim, [2, 2]); t.set(Tag.CFAPattern, CFAPattern.RGGB)
t.set(Tag.BlackLevel, black); t.set(Tag.WhiteLevel, white)
t.set(Tag.ColorMatrix1, [[19549, 10000], [-7877, 10000], [-2582, 10000], [-5724, 10000], [10121, 10000], [1917, 10000], [-1267, 10000], [-110, 10000], [6621, 10000]])
t.set(Tag.CalibrationIlluminant1, CalibrationIlluminant.D65)
t.set(Tag.AsShotNeutral, [[1, 1], [1, 1], [1, 1]])
t.set(Tag.DNGVersion, DNGVersion.V1_4); t.set(Tag.DNGBackwardVersion, DNGVersion.V1_2)
t.set(Tag.Make, "Saccade"); t.set(Tag.Model, "Sensor of the tests")
t.set(Tag.PreviewColorSpace, PreviewColorSpace.sRGB)
r = RAW2DNG(); r.options(t, path="", compress=False); r.convert(raw, filename="sensor")

preview = np.zeros((480, 640, 3), np.uint8)
preview[:, :320] = (200, 20, 20); preview[:, 320:] = (20, 20, 200)
rational = lambda rows: tuple(v for row in rows for v in row)
matrix = [(19549, 10000), (-7877, 10000), (-2582, 10000), (-5724, 10000), (10121, 10000), (1917, 10000), (-1267, 10000), (-110, 10000), (6621, 10000)]
with tifffile.TiffWriter("preview.dng", byteorder="<") as out:
    out.write(preview, photometric="rgb", compression="jpeg", compressionargs={"level": 85}, subfiletype=1, subifds=1, rowsperstrip=480, metadata=None, software="tifffile",
      extratags=[(271, 's', 0, "Saccade", True), (272, 's', 0, "Sensor of the tests", True), (274, 'H', 1, 1, True),
                 (50706, 'B', 4, (1, 4, 0, 0), True), (50707, 'B', 4, (1, 2, 0, 0), True), (50708, 's', 0, "Saccade Sensor of the tests", True),
                 (50721, '2i', 9, rational(matrix), True), (50728, '2I', 3, (1, 1, 1, 1, 1, 1), True), (50778, 'H', 1, 21, True)])
    out.write(raw, photometric=32803, compression=None, subfiletype=0, metadata=None, rowsperstrip=height,
      extratags=[(33421, 'H', 2, (2, 2), True), (33422, 'B', 4, (0, 1, 1, 2), True), (50714, 'H', 1, black, True), (50717, 'H', 1, white, True)])
