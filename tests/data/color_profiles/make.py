"""Writes the images of this folder: Pillow with littlecms (pip install pillow; liblcms2 of the system).

display_p3.png, display_p3.jpg, adobe_rgb_16.png...: numbers in the color space of their embedded ICC profile.
*_in_srgb.png: the same colors in sRGB, converted by littlecms through ImageCms, without a profile.
"""
import ctypes
import io

from PIL import Image, ImageCms

lcms = ctypes.CDLL("liblcms2.so.2")


class XyY(ctypes.Structure):
    _fields_ = [("x", ctypes.c_double), ("y", ctypes.c_double), ("Y", ctypes.c_double)]


def profile(red, green, blue, gamma):
    """An RGB profile of these primaries, white D65, with a power curve."""
    lcms.cmsBuildGamma.restype = ctypes.c_void_p
    lcms.cmsBuildGamma.argtypes = [ctypes.c_void_p, ctypes.c_double]
    lcms.cmsCreateRGBProfile.restype = ctypes.c_void_p
    lcms.cmsCreateRGBProfile.argtypes = [ctypes.c_void_p] * 3
    lcms.cmsSaveProfileToMem.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    curve = lcms.cmsBuildGamma(None, gamma)
    curves = (ctypes.c_void_p * 3)(curve, curve, curve)
    white = XyY(0.3127, 0.3290, 1)
    primaries = (XyY * 3)(*(XyY(x, y, 1) for x, y in (red, green, blue)))
    made = lcms.cmsCreateRGBProfile(ctypes.byref(white), primaries, curves)
    size = ctypes.c_uint32(0)
    lcms.cmsSaveProfileToMem(made, None, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    lcms.cmsSaveProfileToMem(made, buffer, ctypes.byref(size))
    return buffer.raw


def colors():
    image = Image.new("RGB", (48, 32))
    for y in range(32):
        for x in range(48):
            image.putpixel((x, y), (255 * x // 47, 255 * y // 31, 255 * ((x // 8 + y // 8) % 4) // 3))
    return image


P3 = profile((0.680, 0.320), (0.265, 0.690), (0.150, 0.060), 2.2)
ADOBE = profile((0.6400, 0.3300), (0.2100, 0.7100), (0.1500, 0.0600), 2.19921875)
SRGB = ImageCms.createProfile("sRGB")
for name, data in (("display_p3", P3), ("adobe_rgb", ADOBE)):
    colors().save(name + ".png", icc_profile=data, optimize=True)
    source = ImageCms.ImageCmsProfile(io.BytesIO(data))
    ImageCms.profileToProfile(colors(), source, SRGB, renderingIntent=1).save(name + "_in_srgb.png", optimize=True)
smooth = colors().resize((96, 64), Image.BICUBIC)
smooth.save("display_p3.jpg", icc_profile=P3, quality=95, subsampling=0)
stored = Image.open("display_p3.jpg")
stored.load()
ImageCms.profileToProfile(stored, ImageCms.ImageCmsProfile(io.BytesIO(P3)), SRGB, renderingIntent=1).save(
    "display_p3_jpg_in_srgb.png", optimize=True)
colors().save("srgb.png", icc_profile=ImageCms.ImageCmsProfile(SRGB).tobytes(), optimize=True)
# What Pillow, and with it the reference pipelines, hands over: the numbers as they are.
Image.open("display_p3.jpg").convert("RGB").save("display_p3_jpg_as_stored.png", optimize=True)
