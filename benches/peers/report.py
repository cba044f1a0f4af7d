"""The table and the JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from .ours import Ours
from .peer import DENSE, WHOLE
from .rows import Row
from .stats import median, paired, summary, tflops
from .supervise import Outcome
from .timing import L2

HEADER = ("ratio", "TFLOP/s", "us", "p10", "p90", "error", "who", "how, or why not")


def record(row: Row, outcome: Outcome, ours: Ours | None) -> dict[str, Any]:
    """A row as JSON: all ratios are to the dense library on equal work, timed in turn in the same process."""
    facts = outcome.facts
    entry: dict[str, Any] = {
        "name": row.name,
        "op": row.op,
        "m": row.m,
        "n": row.n,
        "k": row.k,
        "block": list(row.block),
        "pattern": row.pattern,
        "dtype": row.dtype,
        "seed": row.seed,
        "nnzb": facts.get("nnzb"),
        "executed_flops": facts.get("flops"),
        "l2": L2,
        "failed": outcome.failed,
        "dense": None,
        "peers": [],
        "ours": _ours(ours),
    }
    if dense := outcome.results.get(DENSE):
        us = [us for us in dense["us"] if us is not None]
        entry["dense"] = {
            "product": facts["dense"],
            "tflops": tflops(facts["dense_flops"], median(us)),
            "time_us": summary(us),
            "relative_error": dense["error"],
        }
    for name, result in outcome.results.items():
        if name != DENSE:
            entry["peers"].append(_peer(name, result, outcome.variants.get(name), facts))
    for name, reason in outcome.reasons.items():
        if name not in outcome.results:
            status = "crashed" if reason.startswith(("crash", "hung")) else "refused"
            status = "wrong" if reason.startswith("wrong result") else status
            entry["peers"].append({"name": name, "status": status, "reason": reason})
    timed = [peer for peer in entry["peers"] if peer["status"] == "timed" and peer["name"] not in WHOLE]
    best = max(timed, key=lambda peer: peer["ratio"], default=None)
    mine = max((one["ratio"] for one in entry["ours"]["records"] if one.get("ratio")), default=None)
    entry["best_peer"] = best and {"name": best["name"], "ratio": best["ratio"], "tflops": best["tflops"]}
    entry["ours_over_best_peer"] = mine / best["ratio"] if mine and best else None
    return entry


def _peer(name: str, result: dict[str, Any], variant: str | None, facts: dict[str, Any]) -> dict[str, Any]:
    if not result["right"]:
        reason = f"wrong result after timing, relative error {result['error']:.1e}"
        return {"name": name, "status": "wrong", "reason": reason, "variant": variant}
    us = [us for us in result["us"] if us is not None]
    dense = [us for us in result["dense_us"] if us is not None]
    both = paired(result["dense_us"], result["us"])
    work = facts["flops"] / facts["dense_flops"]
    return {
        "name": name,
        "status": "timed",
        "variant": variant,
        "ratio": median(dense) / median(us) * work,
        "ratio_paired": both * work if both is not None else None,
        "tflops": tflops(facts["flops"], median(us)),
        "time_us": summary(us),
        "relative_error": result["error"],
        "host_bound": result["host_bound"],
    }


def _ours(ours: Ours | None) -> dict[str, Any]:
    if ours is None:
        return {"records": [], "refused": {}, "same_matrix": False}
    return {"records": ours.records, "refused": ours.refused, "same_matrix": ours.shared}


def lines(entry: dict[str, Any]) -> list[tuple[str, ...]]:
    """A row's part of the table: the dense library, ours, the peers by their ratio, then those without a time."""
    out: list[tuple[str, ...]] = []
    if dense := entry["dense"]:
        out.append(_line(1.0, dense, DENSE, dense["product"]))
    ours = entry["ours"]
    for one in sorted(ours["records"], key=lambda one: -(one["ratio"] or 0)):
        dense_words = f"; its dense library {one['dense']['tflops']:.0f}" if one.get("dense") else ""
        out.append(_line(one["ratio"], one, "bsr", f"{one['spec']}{dense_words}"))
    for spec, reason in ours["refused"].items():
        out.append(_none("bsr", f"refused: {reason} [{spec}]"))
    timed = [peer for peer in entry["peers"] if peer["status"] == "timed"]
    for peer in sorted(timed, key=lambda peer: -peer["ratio"]):
        host = "; with time of the host" if peer["host_bound"] else ""
        out.append(_line(peer["ratio"], peer, peer["name"], f"{peer['variant']}{host}"))
    for peer in entry["peers"]:
        if peer["status"] != "timed":
            prefix = "" if peer["status"] in ("wrong", "crashed") else "refused: "
            out.append(_none(peer["name"], f"{prefix}{peer['reason']}"))
    if entry["failed"]:
        out.append(_none("all", f"failed: {entry['failed']}"))
    return out


def _line(ratio: float | None, one: dict[str, Any], who: str, how: str) -> tuple[str, ...]:
    us = one["time_us"]
    error = one.get("relative_error")
    return (
        "-" if ratio is None else f"{ratio:.3f}",
        f"{one['tflops']:.1f}",
        *(f"{us[key]:.1f}" for key in ("median", "p10", "p90")),
        "-" if error is None else f"{error:.1e}",
        who,
        how,
    )


def _none(who: str, why: str) -> tuple[str, ...]:
    return ("-",) * 6 + (who, why)


def table(rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table, aligned."""
    cells = [HEADER, *rows]
    widths = [max(len(row[at]) for row in cells) for at in range(len(HEADER))]
    numbers = 6
    text = []
    for row in cells:
        padded = [cell.rjust(w) for cell, w in zip(row[:numbers], widths, strict=False)]
        padded += [cell.ljust(w) for cell, w in zip(row[numbers:], widths[numbers:], strict=True)]
        text.append(f"| {' | '.join(padded)} |")
    rule = "|" + "|".join("-" * (w + 1) + (":" if at < numbers else "-") for at, w in enumerate(widths)) + "|"
    return "\n".join([text[0], rule, *text[1:]])


def row_text(row: Row, entry: dict[str, Any]) -> str:
    """A row under its heading."""
    blocks = f", {entry['nnzb']} blocks, {entry['executed_flops'] / 1e9:.0f} GFLOP executed" if entry["nnzb"] else ""
    same = ""
    if entry["ours"]["records"]:
        same = "; bsr on the same matrix" if entry["ours"]["same_matrix"] else "; bsr on another draw of the pattern"
    return f"\n## {row.name}: {row.words()}{blocks}{same}\n\n{table(lines(entry))}"


def overview(entries: list[dict[str, Any]]) -> str:
    """One line a row: ours against the best peer, and whether the layer is faster without block sparsity."""
    cells: list[tuple[str, ...]] = [("row", "bsr", "best peer", "which", "bsr / best peer", *WHOLE)]
    for entry in entries:
        mine = max((one["ratio"] for one in entry["ours"]["records"] if one.get("ratio")), default=math.nan)
        best = entry["best_peer"]
        timed = {peer["name"]: peer for peer in entry["peers"] if peer["status"] == "timed"}
        over = entry["ours_over_best_peer"]
        cells.append((
            entry["name"],
            _number(mine),
            f"{best['ratio']:.3f} ({best['tflops']:.0f})" if best else "-",
            best["name"] if best else "-",
            _number(over if over is not None else math.nan),
            *(_number(timed.get(name, {}).get("ratio", math.nan)) for name in WHOLE),
        ))  # fmt: skip
    widths = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    text = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in cells]
    rule = "|" + "|".join("-" * (w + 2) for w in widths) + "|"
    return "\n".join([text[0], rule, *text[1:]])


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"
