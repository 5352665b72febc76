"""NumPy's side of the round trip in softmax_file.rs.

softmax_file.py make FOLDER    writes inputs and prints a case a line: INPUT OUTPUT OPTIONS
softmax_file.py check FOLDER   compares the outputs with NumPy's own softmax in float64
"""

import json
import pathlib
import struct
import sys

import numpy as np

# Largest error in units in the last place of the output's type.
PROMISED_ULP = {"f32": 4.0, "f16": 0.51, "bf16": 0.51}
# Bits of the mantissa, and the exponent of the smallest normal number.
FORMAT = {"f32": (23, -126), "f16": (10, -14), "bf16": (7, -126)}
SCALE = np.float32(0.125)
SHAPES = [(1,), (33,), (5, 7), (4, 1024), (2, 3, 1025), (3, 4097), (1, 50257)]
OUTPUTS = {"f32": ("f32", "f16", "bf16"), "f16": ("f16", "f32"), "bf16": ("bf16", "f32")}


def to_bits(values, dtype):
    """The words of a file that hold float32 `values`, rounded to `dtype`."""
    if dtype == "f32":
        return values.astype("<f4")
    if dtype == "f16":
        return values.astype("<f2")
    # Cut, not rounded: any bf16 will do.
    return (values.astype("<f4").view("<u4") >> 16).astype("<u2")


def to_float64(words, dtype):
    if dtype == "bf16":
        words = (words.astype("<u4") << 16).view("<f4")
    return words.astype(np.float64)


def cases():
    rng = np.random.default_rng(1)
    for format in ("npy", "safetensors"):
        for dtype in ("f32", "f16", "bf16"):
            for number, shape in enumerate(SHAPES):
                values = (rng.standard_normal(shape) * 20).astype(np.float32)
                values.flat[0] = 3.0
                if shape[-1] > 2:
                    values[..., -2] = -np.inf
                for out in OUTPUTS[dtype]:
                    stem = f"{dtype}_{number}"
                    yield format, dtype, out, to_bits(values, dtype), f"{stem}.{format}", f"{stem}_{out}.{format}"


def save(path, words, dtype):
    if path.suffix == ".npy":
        np.save(path, words)
        return
    info = {"dtype": dtype.upper(), "shape": words.shape, "data_offsets": [0, words.nbytes]}
    header = json.dumps({"x": info}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + words.tobytes())


def load(path, dtype):
    if path.suffix == ".npy":
        return np.load(path)
    data = path.read_bytes()
    start = 8 + struct.unpack("<Q", data[:8])[0]
    info = json.loads(data[8:start])["x"]
    assert info["dtype"] == dtype.upper(), info
    word = {"f32": "<f4", "f16": "<f2", "bf16": "<u2"}[dtype]
    return np.frombuffer(data[start:], word).reshape(info["shape"])


def softmax(x):
    z = (x.astype(np.float32) * SCALE).astype(np.float64)
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def ulp(exact, dtype):
    mantissa, least = FORMAT[dtype]
    exponent = np.floor(np.log2(np.maximum(exact, 2.0**least)))
    return 2.0 ** (exponent - mantissa)


def main(step, folder):
    folder = pathlib.Path(folder)
    worst = {}
    for format, dtype, out, words, source, result in cases():
        if step == "make":
            save(folder / source, words, dtype)
            flags = " --npy-bf16" if (format, dtype) == ("npy", "bf16") else ""
            print(f"{source} {result} --out-dtype {out} --scale {SCALE}{flags}")
            continue
        given = load(folder / result, out)
        assert given.shape == words.shape, (result, given.shape, words.shape)
        exact = softmax(to_float64(words, dtype))
        error = (np.abs(to_float64(given, out) - exact) / ulp(exact, out)).max()
        assert error <= PROMISED_ULP[out], f"{result}: {error} ulp"
        worst[out] = max(worst.get(out, 0.0), error)
    for out, error in worst.items():
        print(f"{out}: {error:.3f} ulp at most")


if __name__ == "__main__":
    main(*sys.argv[1:])
