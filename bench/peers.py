#!/usr/bin/env python3
"""Measures other softmax kernels by the same method as `bench`, into the same JSON.

    peers.py throughput [--dtype f32,f16,bf16] [--cols ...] [--only NAMES] --json FILE
    peers.py latency    [--dtype ...] [--cols ...] [--rows ...] --json FILE
    peers.py masked     [--dtype ...] --json FILE      attention scores, PyTorch eager and compiled
    peers.py --check DIR      compares what `bench exchange DIR` wrote with torch

Peers: PyTorch eager and compiled, a Triton kernel (below), and, where they can be imported or found,
Liger, QuACK and candle's CUDA kernel. A result is compared in full with PyTorch's in float64 before
it is timed. Needs torch with CUDA and triton; candle's kernel needs nvcc and cupy.
"""

import argparse
import dataclasses
import datetime
import gc
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import traceback
from typing import Callable

import torch

SCHEMA = 1
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
# Bits of precision, exponent of the smallest normal number.
FORMATS = {torch.float32: (24, -126), torch.float16: (11, -14), torch.bfloat16: (8, -126)}
# What warp-softmax promises, in units in the last place.
LIMIT_ULP = {"f32": 4.0, "f16": 0.51, "bf16": 0.51}
# A peer's result may be this far off and still be timed; how far it is off is recorded.
PEER_LIMIT = 1e-2

THROUGHPUT_COLS = [32, 33, 64, 128, 256, 512, 1000, 1001, 1024, 2048, 4096, 8192, 16384, 32768,
                   50257, 65536, 128256, 131072, 262144]
LATENCY_COLS = [32, 128, 1024, 4096, 32768, 128256, 262144]
LATENCY_ROWS = [1, 8, 64, 512]
LAUNCHES_PER_GRAPH = 50
WARM_UPS = 3
COPY_SAMPLES = 11


# Errors


def ulp(exact: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The distance of neighbouring numbers of `dtype` at `exact` (float64)."""
    precision, min_exponent = FORMATS[dtype]
    # The exponent of a subnormal float64 reads as -1023, below every smallest exponent here.
    exponent = ((exact.view(torch.int64) >> 52) & 0x7FF) - 1023
    last_place = exponent.clamp(min=min_exponent) - (precision - 1)
    return ((last_place + 1023) << 52).view(torch.float64)


def errors(x: torch.Tensor, y: torch.Tensor) -> tuple[float, float]:
    """Largest error of `y` against the softmax of `x` in float64: in ulp, and as a plain difference.

    NaN in both places is no error; NaN in one is an infinite one.
    """
    worst_ulp = worst = 0.0
    rows, cols = x.shape
    step = max(1, (1 << 25) // cols)
    for first in range(0, rows, step):
        exact = torch.softmax(x[first:first + step].double(), dim=-1)
        got = y[first:first + step].double()
        difference = (got - exact).abs()
        difference = torch.where(exact.isnan() & got.isnan(), 0.0, difference)
        difference = torch.where(difference.isnan(), math.inf, difference)
        size = ulp(torch.where(exact.isnan(), 1.0, exact), y.dtype)
        worst_ulp = max(worst_ulp, (difference / size).max().item())
        worst = max(worst, difference.max().item())
    return worst_ulp, worst


# Our own Triton kernel


def triton_softmax() -> Callable[[torch.Tensor, torch.Tensor], None]:
    """Rows in registers where they fit, several a program if they are short; else an online loop."""
    import triton
    import triton.language as tl

    def bench(call, quantiles):
        """In a graph, as latency is measured: launching costs more than the smallest kernels."""
        return triton.testing.do_bench_cudagraph(call, rep=5, quantiles=quantiles)

    def prune(configs, named_args, **kwargs):
        """One row a program, or 1,024 or 4,096 elements; 4 to 32 elements a thread, or as near as can be."""
        block = kwargs["BLOCK"]
        fitting = [config for config in configs
                   if config.kwargs["ROWS"] == 1 or config.kwargs["ROWS"] * block in (1024, 4096)]
        per_thread = lambda config: config.kwargs["ROWS"] * block / (32 * config.num_warps)
        kept = [config for config in fitting if 4 <= per_thread(config) <= 32]
        return kept or [min(fitting, key=lambda config: abs(per_thread(config) - 16))]

    @triton.autotune(
        configs=[triton.Config({"ROWS": rows}, num_warps=warps)
                 for rows in (1, 2, 4, 8, 16, 32, 64, 128) for warps in (1, 2, 4, 8, 16, 32)],
        key=["cols", "rows"], prune_configs_by={"early_config_prune": prune}, do_bench=bench)
    @triton.jit
    def resident(x, y, rows, cols, BLOCK: tl.constexpr, ROWS: tl.constexpr):
        row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]
        column = tl.arange(0, BLOCK)[None, :]
        inside = (row < rows) & (column < cols)
        value = tl.load(x + row * cols + column, mask=inside, other=-float("inf")).to(tl.float32)
        # A row past the end is all -inf: its sum is NaN, and it is not stored.
        value = tl.exp(value - tl.max(value, axis=1, keep_dims=True))
        value = value / tl.sum(value, axis=1, keep_dims=True)
        tl.store(y + row * cols + column, value.to(y.dtype.element_ty), mask=inside)

    @triton.autotune(
        configs=[triton.Config({"BLOCK": block}, num_warps=warps)
                 for block in (4096, 8192, 16384) for warps in (8, 16, 32)],
        key=["cols", "rows"], do_bench=bench)
    @triton.jit
    def online(x, y, rows, cols, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        x += row * cols
        y += row * cols
        largest = tl.full([BLOCK], -float("inf"), tl.float32)
        total = tl.zeros([BLOCK], tl.float32)
        for first in range(0, cols, BLOCK):
            column = first + tl.arange(0, BLOCK)
            value = tl.load(x + column, mask=column < cols, other=-float("inf")).to(tl.float32)
            new = tl.maximum(largest, value)
            # Still -inf: nothing was there yet.
            total = tl.where(new == -float("inf"), 0.0, total * tl.exp(largest - new) + tl.exp(value - new))
            largest = new
        top = tl.max(largest, axis=0)
        factor = 1.0 / tl.sum(total * tl.exp(largest - top), axis=0)
        for first in range(0, cols, BLOCK):
            column = first + tl.arange(0, BLOCK)
            value = tl.load(x + column, mask=column < cols, other=-float("inf")).to(tl.float32)
            value = tl.exp(value - top) * factor
            tl.store(y + column, value.to(y.dtype.element_ty), mask=column < cols)

    def run(x, y):
        rows, cols = x.shape
        if cols <= 65536:
            grid = lambda config: (triton.cdiv(rows, config["ROWS"]),)
            resident[grid](x, y, rows, cols, BLOCK=max(32, triton.next_power_of_2(cols)))
        else:
            online[(rows,)](x, y, rows, cols)

    return run


# Candle's kernel, as candle-nn launches it


def candle_softmax(kernels: pathlib.Path) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """`kernels` is candle-kernels' folder `src`, or its `reduce.cu` compiled to PTX or a cubin."""
    import cupy

    major, minor = torch.cuda.get_device_capability()
    if kernels.is_dir():
        compiled = pathlib.Path(tempfile.mkdtemp()) / "reduce.cubin"
        subprocess.run(["nvcc", f"-arch=sm_{major}{minor}", "-cubin", "--expt-relaxed-constexpr", "-std=c++17",
                        "-O3", "-o", compiled, kernels / "reduce.cu"], check=True)
        kernels = compiled
    module = cupy.RawModule(path=str(kernels))
    functions = {dtype: module.get_function(f"softmax_{name}") for name, dtype in DTYPES.items()}

    def run(x, y):
        rows, cols = x.shape
        if x.numel() >= 1 << 31:
            raise RuntimeError("candle's kernel counts elements in 32 bits")
        with cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
            arguments = (x.data_ptr(), y.data_ptr(), cupy.int32(cols))
            functions[x.dtype]((rows,), (1, 32), arguments)

    return run


# Who is measured


@dataclasses.dataclass
class Peer:
    name: str
    # From an input and an output of the same shape; returns where the result is.
    run: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def peers(args) -> tuple[list[Peer], list[dict]]:
    """The peers that are here, and a failure for each that is not."""

    def into(function):
        def run(x, y):
            function(x, y)
            return y

        return run

    def eager():
        return into(lambda x, y: torch.softmax(x, -1, out=y))

    def compiled():
        # A graph for each shape, as with static shapes.
        function = torch.compile(lambda x: torch.softmax(x, -1), dynamic=False)
        torch._dynamo.config.cache_size_limit = 1024
        return lambda x, y: function(x)

    def liger():
        if args.liger:
            sys.path.insert(0, str(args.liger))
        from liger_kernel.ops.softmax import LigerSoftmaxFunction
        return lambda x, y: LigerSoftmaxFunction.apply(x)

    def quack():
        if args.quack:
            sys.path.insert(0, str(args.quack))
        # Not through `quack.softmax`: the package hides the module behind the function of that name.
        from quack.softmax import _softmax_fwd
        return into(_softmax_fwd)

    def candle():
        if not args.candle:
            raise RuntimeError("no --candle PATH to its kernels")
        return into(candle_softmax(args.candle))

    makers = {
        "torch eager": eager,
        "torch.compile": compiled,
        "triton": lambda: into(triton_softmax()),
        "liger": liger,
        "quack": quack,
        "candle": candle,
    }
    if args.only:
        unknown = set(args.only) - set(makers)
        if unknown:
            sys.exit(f"--only: {', '.join(sorted(unknown))} is none of {', '.join(makers)}")
        makers = {name: maker for name, maker in makers.items() if name in args.only}
    found, missing = [], []
    for name, maker in makers.items():
        try:
            found.append(Peer(name, maker()))
        except Exception as error:
            print(f"missing: {name}: {error}", flush=True)
            missing.append({"cell": "all", "implementation": name, "reason": f"missing: {error}"})
    return found, missing


# Times


def time_each(samples: int, run: Callable[[], object]) -> list[float]:
    """Microseconds of each of several launches in a row, after some that warm up."""
    for _ in range(WARM_UPS):
        run()
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(samples)]
    for start, end in events:
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) * 1e3 for start, end in events]


def time_graph(samples: int, run: Callable[[], object]) -> list[float]:
    """Microseconds a launch, in replays of a graph of several."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(LAUNCHES_PER_GRAPH):
            run()
    return [us / LAUNCHES_PER_GRAPH for us in time_each(samples, graph.replay)]


def spread(samples: list[float]) -> dict:
    median = statistics.median(samples)
    return {"median": median, "min": min(samples), "max": max(samples),
            "spread": (max(samples) - min(samples)) / median, "samples": len(samples)}


def measure(peer: Peer, bench: str, dtype: str, x: torch.Tensor, y: torch.Tensor, samples: int) -> dict:
    """Checks, then times. Raises where the result is no softmax."""
    rows, cols = x.shape
    y.fill_(math.nan)
    # New memory is poisoned too, as far as the allocator gives it out again.
    torch.empty_like(x).fill_(math.nan)
    result = peer.run(x, y)
    worst_ulp, worst = errors(x, result)
    if not worst <= PEER_LIMIT:
        raise RuntimeError(f"a result is {worst:.3g} off: nothing is timed")
    del result

    time, copies = (time_each, COPY_SAMPLES) if bench == "throughput" else (time_graph, samples)
    copy = lambda: y.copy_(x)
    before = statistics.median(time(copies, copy))
    us = spread(time(samples, lambda: peer.run(x, y)))
    after = statistics.median(time(copies, copy))
    copy_us = (before + after) / 2
    bytes_moved = 2 * x.numel() * x.element_size()
    return {
        "bench": bench, "implementation": peer.name, "dtype": dtype, "rows": rows, "cols": cols,
        "kernel": None, "plan": None,
        "timing": {"us": us, "copy_us": copy_us, "copy_before_us": before, "copy_after_us": after,
                   "gb_per_s": bytes_moved / us["median"] / 1e3, "fraction_of_copy": copy_us / us["median"]},
        "accuracy": {"max_error_ulp": worst_ulp, "limit_ulp": LIMIT_ULP[dtype], "rows_compared": rows,
                     "elements_scanned": x.numel()},
    }


# The record


def nvidia_smi(fields: str) -> list[str] | None:
    try:
        answer = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
                                capture_output=True, text=True, check=True).stdout
        return [field.strip() for field in answer.splitlines()[0].split(",")]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return None


def clocks() -> dict | None:
    names = ["sm_mhz", "max_sm_mhz", "memory_mhz", "power_w", "temperature_c"]
    values = nvidia_smi("clocks.sm,clocks.max.sm,clocks.mem,power.draw,temperature.gpu")
    try:
        return {name: float(value) for name, value in zip(names, values, strict=True)}
    except (TypeError, ValueError):
        return None


def environment() -> dict:
    import triton
    driver = nvidia_smi("driver_version")
    return {
        "device": torch.cuda.get_device_name(), "driver": driver[0] if driver else None, "clocks": None,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": "-", "command": [pathlib.PurePath(word).name for word in sys.argv[1:]],
        "software": f"torch {torch.__version__}, triton {triton.__version__}",
    }


def save(record: dict, path: pathlib.Path | None) -> None:
    if path:
        path.write_text(json.dumps(record, indent=2) + "\n")


def shapes(args) -> list[tuple[str, int, int]]:
    """Every (dtype, rows, cols) of the bench."""
    if args.command == "throughput":
        elements = {"f32": 1 << 29, "f16": 1 << 30, "bf16": 1 << 30}
        return [(dtype, elements[dtype] // cols, cols) for dtype in args.dtype for cols in args.cols or THROUGHPUT_COLS]
    return [(dtype, rows, cols) for dtype in args.dtype for rows in args.rows or LATENCY_ROWS
            for cols in args.cols or LATENCY_COLS]


def run(args) -> None:
    found, missing = peers(args)
    record = {"schema": SCHEMA, "environment": environment(), "cells": [], "startup": [], "scaling": [],
              "failures": missing}
    print(f"{args.command}: {torch.cuda.get_device_name()}, {record['environment']['software']}")
    print(f"{'dtype':>5} {'rows':>9} {'columns':>8} {'us':>10} {'of copy':>8} {'error, ulp':>11}  implementation")
    save(record, args.json)
    generator = torch.Generator(device="cuda").manual_seed(1)
    previous = None
    for dtype, rows, cols in shapes(args):
        if dtype != previous:
            # Sums of four uniforms, within (-8, 8); one buffer for all shapes of a type.
            x_buffer = y_buffer = None
            gc.collect()
            torch.cuda.empty_cache()
            most = max(rows * cols for other, rows, cols in shapes(args) if other == dtype)
            x_buffer, y_buffer = (torch.empty(most, dtype=DTYPES[dtype], device="cuda") for _ in range(2))
            for part in x_buffer.split(1 << 26):
                uniform = torch.rand(4, part.numel(), device="cuda", generator=generator)
                part.copy_((uniform * 4 - 2).sum(0))
            previous = dtype
        x, y = (buffer[:rows * cols].view(rows, cols) for buffer in (x_buffer, y_buffer))
        for peer in found:
            try:
                cell = measure(peer, args.command, dtype, x, y, args.samples)
            except Exception as error:
                if args.verbose:
                    traceback.print_exc()
                reason = " ".join(str(error).split())[:300]
                print(f"{dtype:>5} {rows:>9} {cols:>8} {peer.name}: failed: {reason}", flush=True)
                record["failures"].append({"cell": f"{args.command} {dtype} {rows} x {cols}",
                                           "implementation": peer.name, "reason": reason})
            else:
                record["cells"].append(cell)
                timing = cell["timing"]
                print(f"{dtype:>5} {rows:>9} {cols:>8} {timing['us']['median']:>10.2f} "
                      f"{timing['fraction_of_copy']:>8.3f} {cell['accuracy']['max_error_ulp']:>11.2f}  {peer.name}",
                      flush=True)
            save(record, args.json)
    record["environment"]["clocks"] = clocks()
    save(record, args.json)


# Batch, heads, queries, keys, as in `bench masked`.
MASKED_SHAPES = [(1, 32, 2048, 2048), (8, 16, 512, 512), (2, 32, 4096, 4096), (4, 12, 1024, 1000), (64, 32, 1, 8192)]
SCALE = 0.5
CAP = 15.0


def masked_calls(batch: int, queries: int, keys: int, dtype: torch.dtype) -> dict[str, tuple]:
    """A function of scores and further arguments, and those arguments, by name; as `bench masked` has them."""
    generator = torch.Generator(device="cuda").manual_seed(2)
    bias = torch.rand(batch, 1, queries, keys, device="cuda", generator=generator).to(dtype) * 8 - 4
    keep = torch.rand(batch, 1, queries, keys, device="cuda", generator=generator) >= 0.125
    batches = torch.arange(batch, device="cuda")
    lengths = (keys - batches % 4 * (keys // 8)).view(batch, 1, 1, 1)
    key = torch.arange(keys, device="cuda")
    after = key > torch.arange(queries, device="cuda").view(queries, 1) + keys - queries
    fill = lambda x, hidden: (x * SCALE).masked_fill(hidden, -math.inf)
    return {
        "unmasked": (lambda x: torch.softmax(x * SCALE, -1),),
        "additive": (lambda x, bias: torch.softmax(x * SCALE + bias, -1), bias),
        "keep": (lambda x, keep: torch.softmax(fill(x, ~keep), -1), keep),
        "lengths": (lambda x, key, lengths: torch.softmax(fill(x, key >= lengths), -1), key, lengths),
        "causal": (lambda x, after: torch.softmax(fill(x, after), -1), after),
        "soft cap": (lambda x: torch.softmax(CAP * torch.tanh(x * (SCALE / CAP)), -1),),
        "log-softmax": (lambda x: torch.log_softmax(x * SCALE, -1),),
        "logsumexp": (lambda x: torch.logsumexp(x * SCALE, -1),),
    }


def run_masked(args) -> None:
    """PyTorch on attention scores. Results are not compared: masked scores are PyTorch's own operations."""
    record = {"schema": SCHEMA, "environment": environment(), "masked": [], "failures": []}
    print(f"masked: {torch.cuda.get_device_name()}, {record['environment']['software']}")
    for dtype in args.dtype:
        for shape in MASKED_SHAPES:
            batch, _, queries, keys = shape
            x = torch.randn(shape, device="cuda").to(DTYPES[dtype])
            y = torch.empty_like(x)
            for what, (function, *arguments) in masked_calls(batch, queries, keys, DTYPES[dtype]).items():
                for name, call in [("PyTorch", function), ("PyTorch, compiled", torch.compile(function, dynamic=False))]:
                    try:
                        copy = lambda: y.copy_(x)
                        before = statistics.median(time_each(COPY_SAMPLES, copy))
                        us = spread(time_each(args.samples, lambda: call(x, *arguments)))
                        after = statistics.median(time_each(COPY_SAMPLES, copy))
                    except Exception as error:
                        reason = " ".join(str(error).split())[:300]
                        print(f"{dtype:>5} {shape} {what} {name}: failed: {reason}", flush=True)
                        record["failures"].append({"cell": f"masked {dtype} {shape} {what}",
                                                   "implementation": name, "reason": reason})
                        continue
                    copy_us = (before + after) / 2
                    moved = 2 * x.numel() * x.element_size()
                    record["masked"].append({
                        "implementation": name, "dtype": dtype, "shape": list(shape), "what": what,
                        "kernel": "", "plan": "", "bytes": moved, "copy_bytes": moved,
                        "timing": {"us": us, "copy_us": copy_us, "copy_before_us": before, "copy_after_us": after,
                                   "gb_per_s": moved / us["median"] / 1e3, "fraction_of_copy": copy_us / us["median"]},
                        "accuracy": {"max_error_ulp": 0.0, "limit_ulp": 0.0, "rows_compared": 0, "elements_scanned": 0},
                    })
                    print(f"{dtype:>5} {str(shape):>22} {what:>12} {us['median']:>10.1f} us {copy_us:>9.1f} us a copy  "
                          f"{name}", flush=True)
                    save(record, args.json)
            torch._dynamo.reset()
    record["environment"]["clocks"] = clocks()
    save(record, args.json)


def check(folder: pathlib.Path) -> None:
    """Compares each file's `y` with the softmax of its `x`."""
    from safetensors.torch import load_file

    device = "cuda" if torch.cuda.is_available() else "cpu"
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        sys.exit(f"{folder}: no .safetensors files")
    failed = 0
    for file in files:
        tensors = load_file(file, device=device)
        x, y = tensors["x"], tensors["y"]
        name = next(name for name, dtype in DTYPES.items() if dtype == y.dtype)
        if x.shape != y.shape:
            failed += 1
            print(f"FAILED {file.name}: x is {tuple(x.shape)}, y is {tuple(y.shape)}")
            continue
        worst, _ = errors(x.reshape(-1, x.shape[-1]), y.reshape(-1, y.shape[-1]))
        good = worst <= LIMIT_ULP[name]
        failed += not good
        print(f"{'ok    ' if good else 'FAILED'} {file.name}: {worst:.3f} ulp of {LIMIT_ULP[name]}")
    print(f"{len(files) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")
    numbers = lambda text: [int(word) for word in text.split(",")]
    parser.add_argument("command", nargs="?", choices=["throughput", "latency", "masked"])
    parser.add_argument("--check", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--dtype", type=words, default=list(DTYPES))
    parser.add_argument("--cols", type=numbers)
    parser.add_argument("--rows", type=numbers, help="numbers of rows (latency)")
    parser.add_argument("--samples", type=int, default=21)
    parser.add_argument("--only", type=words, help="names of peers")
    parser.add_argument("--liger", type=pathlib.Path, metavar="PATH", help="folder that holds liger_kernel")
    parser.add_argument("--quack", type=pathlib.Path, metavar="PATH", help="folder that holds quack")
    parser.add_argument("--candle", type=pathlib.Path, metavar="PATH", help="candle-kernels/src, or PTX or cubin of it")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--verbose", action="store_true", help="whole error messages")
    args = parser.parse_args()
    if args.check:
        check(args.check)
    elif not args.command:
        parser.error("throughput, latency, masked or --check DIR")
    elif set(args.dtype) - set(DTYPES):
        parser.error(f"--dtype: of {', '.join(DTYPES)}")
    elif not torch.cuda.is_available():
        parser.error("torch finds no GPU")
    elif args.command == "masked":
        run_masked(args)
    else:
        run(args)


if __name__ == "__main__":
    main()
