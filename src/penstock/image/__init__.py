"""Functions on pixels: NumPy in, NumPy out, with the names and the meaning of tf.image and tf.io.

Images are (height, width, channels), batches of them (number, height, width, channels). Channels come as red, green,
blue. Functions that draw take the `numpy.random.Generator` that `random_map` hands over as their last argument:

>>> import numpy as np, penstock as ps
>>> def augment(image, rng):
...     image = ps.image.random_flip_left_right(image, rng)
...     return ps.image.random_crop(image, (2, 2, 3), rng)
>>> images = np.arange(96, dtype=np.uint8).reshape(2, 4, 4, 3)
>>> ds = ps.Dataset.from_tensor_slices(images).random_map(augment, seed=1).batch(2)
>>> next(iter(ds)).shape
(2, 2, 2, 3)

Which library decodes and resizes, and why: docs/adr/0010. They are loaded by the first function that needs one.
"""

from .adjust import adjust_brightness, adjust_contrast, random_brightness, random_contrast
from .contents import MAX_PIXELS
from .convert import convert_image_dtype, grayscale_to_rgb, rgb_to_grayscale
from .crop import central_crop, crop_to_bounding_box, random_crop
from .decode import decode_and_crop_jpeg, decode_bmp, decode_gif, decode_image, decode_jpeg, decode_png
from .encode import encode_jpeg, encode_png
from .flip import flip_left_right, flip_up_down, random_flip_left_right, random_flip_up_down
from .resize import resize
from .standardize import per_image_standardization

__all__ = [
    "MAX_PIXELS",
    "adjust_brightness",
    "adjust_contrast",
    "central_crop",
    "convert_image_dtype",
    "crop_to_bounding_box",
    "decode_and_crop_jpeg",
    "decode_bmp",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "encode_jpeg",
    "encode_png",
    "flip_left_right",
    "flip_up_down",
    "grayscale_to_rgb",
    "per_image_standardization",
    "random_brightness",
    "random_contrast",
    "random_crop",
    "random_flip_left_right",
    "random_flip_up_down",
    "resize",
    "rgb_to_grayscale",
]
