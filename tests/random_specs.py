#!/usr/bin/env python3
"""Draws random specs of every operation, multiplies each on a GPU, and compares every row with the f64 reference.

    python3 tests/random_specs.py target/release/bsr --count 1000 --json found.json

Specs that cannot be planned are drawn again. What the command answers for each of the others is counted: right, wrong (exit
code 1), refused or failed in any other way. The last lines name every spec that was not right, with the command that shows it.
`--device sim` runs the same problems, which are small, on the simulator.
"""

import argparse
import collections
import concurrent.futures
import functools
import json
import os
import random
import re
import subprocess
import time

SIZES = [8, 16, 24, 32, 40, 48, 64, 64, 80, 96, 112, 128, 128, 192, 256, 320, 512]
WIDTHS = [16, 32, 48, 64, 96, 128, 128, 192, 256]
SCORES = [
    "|| if i >= j { s * scale } else { -inf }",
    "|window: f32| if i >= j && i - j < 77 { s * scale } else { -inf }",
    "|slopes: Heads<f32>| s * scale + slopes * (j - i)",
    "|bias: Cols<f32>| s * scale + bias",
    "|bias: Rows<f32>| s * scale - bias",
    "|of_query: Rows<f32>, of_key: Cols<f32>| if of_query == of_key { s * scale } else { -inf }",
    "|| 30 * tanh(s * scale / 30)",
]
EPILOGUES = ["|| relu(acc)", "|x: Rows<f32>, y: Cols<f32>| gelu(acc * x + y)", "|s: f32| (relu(s * acc), row_max(acc))"]


# A third of the specs are attentions; of the others each family has as many.
PRODUCTS = ["", "", "op = sdd", "op = dds", "mma = mma_sync", "mma = wmma", "mma = scalar"]


def some(draw, *choices, share=0.5):
    """One of the choices in this share of the draws, or else nothing."""
    return draw.choice(choices) if draw.random() < share else ""


# For keys of which there are many and most exclude others.
few = functools.partial(some, share=0.2)


def product(draw, family):
    keys = [f"bm = {draw.choice(SIZES)}", f"bn = {draw.choice(WIDTHS)}", f"bk = {draw.choice(SIZES)}", family]
    keys.append(
        draw.choice(["", "", "dtype = bf16", "dtype = f32", "dtype = e4m3", "dtype = i8", "dtype = e4m3, out = e4m3"])
    )
    keys += [
        few(draw, "out = f32"),
        few(draw, "transpose = on"),
        few(draw, "b_layout = col"),
        few(draw, "c_layout = col"),
    ]
    keys += [few(draw, "cluster = 2", "cluster = 4"), few(draw, "stages = 2", "stages = 3", "stages = 5")]
    keys += [few(draw, "consumers = 1", "consumers = 2", "consumers = 3"), few(draw, "swap = on", "swap = off")]
    keys += [
        few(draw, "schedule = balanced", "schedule = strided"),
        few(draw, "split = auto", "split = 2", "split = long"),
    ]
    keys += [
        few(draw, "pack = 2", "pack = 4"),
        few(draw, "pdl = on", "scale = tensor", "accumulate = atomic", "permute = on"),
    ]
    keys.append(few(draw, f'epilogue = "{draw.choice(EPILOGUES)}"', "beta = on"))
    sizes = [draw.randint(1, 1100), draw.randint(1, 400), draw.randint(1, 1100)]
    # A sparse operand of more than 512 columns has two columns of blocks.
    top = "topk:2" if sizes[1 if family in ("op = sdd", "op = dds") else 2] > max(SIZES) else "topk:1"
    pattern = draw.choice(["random:0.3", "random:0.02", top, "causal", "window:0.2", "powerlaw:0.2", "random:1"])
    return keys, ["--m", sizes[0], "--n", sizes[1], "--k", sizes[2], "--pattern", pattern]


def attention(draw):
    group = draw.choice([1, 1, 2, 4, 8])
    keys = [
        "op = attention",
        f"bm = {draw.choice([64, 64, 128, 128, 256, 192])}",
        f"bn = {draw.choice([64, 96, 128, 128, 192, 256])}",
    ]
    keys += [f"bk = {draw.choice([64, 64, 128, 128, 256, 192])}", draw.choice(["", "dtype = bf16"])]
    keys += [some(draw, "d = 64", "d = 96", "d = 128", "d = 192"), some(draw, "split = auto", "split = 2", "split = 4")]
    keys += [
        some(draw, *(f"pack_heads = {heads}" for heads in (1, 2, 4, 8) if group % heads == 0)),
        some(draw, "stages = 2", "stages = 3"),
    ]
    keys += [some(draw, "consumers = 1", "consumers = 2", "consumers = 3"), some(draw, "k_step = 64", "k_step = 128")]
    keys.append(some(draw, f'score = "{draw.choice(SCORES)}"'))
    keys.append(some(draw, "sinks = on"))
    keys.append(few(draw, "page = 16", "page = 64", "page = 256"))
    key_heads = draw.choice([1, 2, 3])
    problem = ["--m", draw.choice([1, 7, draw.randint(1, 500)]), "--n", draw.randint(1, 900)]
    problem += ["--heads", group * key_heads, "--key-heads", key_heads, "--batch", draw.choice([1, 1, 2, 3])]
    pattern = draw.choice(["random:0.3", "random:0.05", "causal", "window:0.2", "random:1"])
    return keys, [*problem, "--pattern", pattern]


def run(command, arguments, seconds=300):
    try:
        done = subprocess.run(
            [command, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            env={"RAYON_NUM_THREADS": "2", **os.environ},
        )
    except subprocess.TimeoutExpired:
        return None, "no answer"
    return done.returncode, done.stdout + done.stderr


def verified(asked, spec, problem):
    code, said = run(asked.command, ["run", spec, *problem, "--device", asked.device, "--check", "all"])
    fate = {0: "right", 1: "WRONG"}.get(code, f"exit {code}")
    return {"spec": spec, "problem": list(map(str, problem)), "fate": fate, "said": said[-1200:]}


def drawn(command, draw):
    family = draw.choice(PRODUCTS) if draw.random() < 2 / 3 else None
    while True:
        keys, problem = attention(draw) if family is None else product(draw, family)
        spec = ", ".join(key for key in keys if key)
        if run(command, ["plan", spec])[0] == 0:
            return spec, [*problem, "--seed", draw.randint(0, 10**6)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", help="the bsr command")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no more specs after so long")
    parser.add_argument("--json", help="write what was found to this file")
    asked = parser.parse_args()

    end = time.monotonic() + asked.seconds
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        draws = [random.Random(f"{asked.seed} {number}") for number in range(asked.count)]
        specs = list(pool.map(lambda draw: drawn(asked.command, draw), draws))
        found = pool.map(lambda one: verified(asked, *one) if time.monotonic() < end else None, specs)
        found = [one for one in found if one is not None]
    if asked.json:
        with open(asked.json, "w") as file:
            json.dump(found, file, indent=1)
    kinds = collections.Counter()
    for one in found:
        operation = re.search(r"op = (\w+)|mma = (\w+)", one["spec"])
        kinds[operation.group(0) if operation else "dsd", one["fate"]] += 1
    for (kind, fate), count in sorted(kinds.items()):
        print(f"{kind:16} {fate:10} {count}")
    wrong = [one for one in found if one["fate"] != "right"]
    for one in wrong:
        last = one["said"].strip().splitlines()[-1:] or [""]
        print(f"{one['fate']}: bsr run '{one['spec']}' {' '.join(one['problem'])}\n    {last[0][:300]}")
    print(f"summary: {len(found)} specs, {len(found) - len(wrong)} right, {len(wrong)} not")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
