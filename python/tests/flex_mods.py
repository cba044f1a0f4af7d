"""Functions of FlexAttention's kind: masks and scores, by name."""

from __future__ import annotations

import torch
from torch.nn.attention.flex_attention import and_masks, or_masks

BATCH, HEADS, LENGTH, COLUMNS = 2, 4, 192, 16
#: The queries as an image of 12 rows, and as a video of 3 pictures of 8 x 8.
WIDTH, HEIGHT = 16, 12
INF = float("inf")

_random = torch.Generator().manual_seed(5)
_at = torch.arange(LENGTH)
DOC = _at // 41
DOCS = torch.stack([_at // 41, _at // 64])
OFFSETS = torch.tensor([0, 30, 31, 90, LENGTH])
LENGTHS = torch.tensor([150, 192])
PREFIX = torch.tensor([20, 77])
WINDOWS = torch.tensor([3, 17, 64, 200])
VALID = torch.rand(BATCH, LENGTH, generator=_random) > 0.3
ORDER = torch.randperm(LENGTH, generator=_random)
IMAGES = torch.tensor([[10, 50], [100, 130]])
SLOPES = torch.rand(HEADS, generator=_random)
HEAD_BIAS = torch.randn(HEADS, generator=_random)
KEY_BIAS = torch.randn(BATCH, LENGTH, generator=_random)
FULL_KEY_BIAS = torch.randn(BATCH, HEADS, LENGTH, generator=_random)
QUERY_BIAS = torch.randn(HEADS, LENGTH, generator=_random)


def causal(b, h, q, k):
    return q >= k


def window(b, h, q, k):
    return (q - k).abs() <= 20


def xy(at):
    return at % WIDTH, at // WIDTH


def spread(x):
    x = (x | (x << 2)) & 0x33
    return (x | (x << 1)) & 0x55


def unspread(x):
    x = x & 0x55
    x = (x | (x >> 1)) & 0x33
    return (x | (x >> 2)) & 0x0F


def natten(b, h, q, k):
    (qx, qy), (kx, ky) = xy(q), xy(k)
    x, y = qx.clamp(3, WIDTH - 1 - 3), qy.clamp(3, HEIGHT - 1 - 3)
    return ((x - kx).abs() <= 3) & ((y - ky).abs() <= 3)


def natten_morton(b, h, q, k):
    (qx, qy), (kx, ky) = (unspread(q), unspread(q >> 1)), (unspread(k), unspread(k >> 1))
    return ((qx - kx).abs() <= 2) & ((qy - ky).abs() <= 2)


def natten_tiled(b, h, q, k):
    def place(at):
        tile, within = at // 16, at % 16
        return (tile % 4) * 4 + within % 4, (tile // 4) * 4 + within // 4

    (qx, qy), (kx, ky) = place(q), place(k)
    return ((qx - kx).abs() <= 3) & ((qy - ky).abs() <= 3)


def morton_order(b, h, q, k):
    def code(at):
        x, y = xy(at)
        return spread(x) | (spread(y) << 1)

    return code(q) >= code(k)


def static_tiles(b, h, q, k):
    def tile(at):
        return at // 64, (at % 64) // 8 // 4, at % 8 // 4

    near = [(x.clamp(0, 2) - y).abs() <= 1 for x, y in zip(tile(q), tile(k))]
    return near[0] & near[1] & near[2]


def video(b, h, q, k):
    def place(at):
        return at // 64, at // 8 % 8, at % 8

    (qt, qy, qx), (kt, ky, kx) = place(q), place(k)
    return (qt >= kt) & ((qy - ky).abs() + (qx - kx).abs() < 5)


def transfusion(b, h, q, k):
    def within(image):
        start, end = IMAGES[b, 0] + 60 * image, IMAGES[b, 1] + 60 * image
        return (q >= start) & (q < end) & (k >= start) & (k < end)

    return (q >= k) | within(0) | within(1)


def jagged(b, h, q, k):
    def sequence(at):
        return torch.bucketize(at, OFFSETS, right=True)

    same, start = sequence(q) == sequence(k), OFFSETS[sequence(q) - 1]
    return same & (q - start >= k - start)


def by_head(b, h, q, k):
    return torch.where(h % 2 == 0, q >= k, (q - k).abs() < 9)


def in_place(s, b, h, q, k):
    same, k = s, k * 1
    s += 0.1 * k
    k.add_(2).mul_(3)
    return same - k / 100.0


MASKS = {
    "causal": causal,
    "causal, an operator's name": lambda b, h, q, k: torch.ge(q, k),
    "future": lambda b, h, q, k: k >= q,
    "strictly causal": lambda b, h, q, k: q > k,
    "everything": lambda b, h, q, k: b.new_ones((), dtype=torch.bool),
    "everything, of Python": lambda b, h, q, k: torch.tensor(True),
    "window": window,
    "causal window": lambda b, h, q, k: (q >= k) & (q - k < 33),
    "shifted window": lambda b, h, q, k: (q - k >= 20) & (q - k <= 70),
    "window by head": lambda b, h, q, k: (q >= k) & (q - k < WINDOWS[h]),
    "a rule by head": by_head,
    "sinks and a window": lambda b, h, q, k: (q >= k) & ((q - k < 16) | (k < 4)),
    "longformer": lambda b, h, q, k: ((q - k).abs() < 12) | (q < 5) | (k < 5),
    "and_masks": and_masks(causal, window),
    "or_masks": or_masks(causal, window),
    "nested masks": or_masks(and_masks(causal, window), lambda b, h, q, k: k < 3),
    "prefix": lambda b, h, q, k: (q >= k) | (k < 50),
    "prefix by problem": lambda b, h, q, k: (q >= k) | (k < PREFIX[b]),
    "offset by problem": lambda b, h, q, k: q + PREFIX[b] >= k,
    "documents": lambda b, h, q, k: DOC[q] == DOC[k],
    "causal documents": lambda b, h, q, k: (DOC[q] == DOC[k]) & (q >= k),
    "documents by problem": lambda b, h, q, k: DOCS[b, q] == DOCS[b, k],
    "documents, one index after the other": lambda b, h, q, k: DOCS[b][q] == DOCS[b][k],
    "other documents": lambda b, h, q, k: DOC[q] != DOC[k],
    "jagged sequences": jagged,
    "prefix of documents": lambda b, h, q, k: (DOC[q] == DOC[k]) & ((q >= k) | (k % 41 < 9)),
    "padding": lambda b, h, q, k: k < LENGTHS[b],
    "padding of both": lambda b, h, q, k: (q < LENGTHS[b]) & (k < LENGTHS[b]),
    "valid keys": lambda b, h, q, k: VALID[b, k] & (q >= k),
    "keys alone": lambda b, h, q, k: k % 3 == 0,
    "queries alone": lambda b, h, q, k: q % 2 == 0,
    "dilated": lambda b, h, q, k: (q - k) % 4 == 0,
    "dilated window": lambda b, h, q, k: ((q - k).abs() <= 40) & ((q - k) % 3 == 0),
    "dilated by distance": lambda b, h, q, k: (q - k).abs() % 5 < 2,
    "strided": lambda b, h, q, k: (q // 16 == k // 16) | (k % 16 == 15),
    "cyclic window": lambda b, h, q, k: (q - k + 10) % LENGTH < 30,
    "anti-diagonals": lambda b, h, q, k: (q + k) % 7 == 0,
    "distance in blocks": lambda b, h, q, k: (q - k) // 16 == 1,
    "block diagonal": lambda b, h, q, k: q // 32 == k // 32,
    "block causal": lambda b, h, q, k: q // 32 >= k // 32,
    "checkerboard": lambda b, h, q, k: (q // 16 + k // 16) % 2 == 0,
    "groups": lambda b, h, q, k: q % 4 == k % 4,
    "exclusive or": lambda b, h, q, k: (q >= k) ^ (k % 2 == 0),
    "not": lambda b, h, q, k: ~((q >= k) & (q - k < 8)),
    "logical functions": lambda b, h, q, k: torch.logical_or(
        torch.logical_and(q >= k, k > 9), torch.logical_not(q > 99)
    ),
    "a permutation": lambda b, h, q, k: ORDER[q] >= ORDER[k],
    "rows of an image": lambda b, h, q, k: q // WIDTH == k // WIDTH,
    "columns of an image": lambda b, h, q, k: q % WIDTH == k % WIDTH,
    "raster order in a window": lambda b, h, q, k: (q >= k) & ((q % WIDTH - k % WIDTH).abs() < 4),
    "shifted windows of an image": lambda b, h, q, k: (
        ((q % WIDTH + 2) // 4 == (k % WIDTH + 2) // 4) & (q // 64 == k // 64)
    ),
    "NATTEN": natten,
    "NATTEN, Morton order": natten_morton,
    "NATTEN, tiled": natten_tiled,
    "Morton codes": morton_order,
    "static tiles": static_tiles,
    "a video": video,
    "images in text": transfusion,
    "a product": lambda b, h, q, k: q * k < 4000,
    "a circle": lambda b, h, q, k: (q - 90) ** 2 + (k - 90) ** 2 < 5000,
}

SCORES = {
    "identity": lambda s, b, h, q, k: s,
    "nothing but places": lambda s, b, h, q, k: 0.1 * (q - k),
    "a constant": lambda s, b, h, q, k: torch.zeros_like(s),
    "relative": lambda s, b, h, q, k: s + (q - k),
    "relative, absolute": lambda s, b, h, q, k: s - (q - k).abs(),
    "in place": in_place,
    "ALiBi": lambda s, b, h, q, k: s + SLOPES[h] * (k - q),
    "ALiBi, computed": lambda s, b, h, q, k: s + torch.exp2(-((h + 1) * 8.0 / HEADS)) * (k - q),
    "causal ALiBi": lambda s, b, h, q, k: torch.where(q >= k, s + SLOPES[h] * (k - q), -INF),
    "causal": lambda s, b, h, q, k: torch.where(q >= k, s, -INF),
    "causal, masked_fill": lambda s, b, h, q, k: s.masked_fill(q < k, -INF),
    "window": lambda s, b, h, q, k: torch.where((q >= k) & (q - k < 30), s, float("-inf")),
    "soft cap": lambda s, b, h, q, k: 5.0 * torch.tanh(s / 5.0),
    "soft cap by methods": lambda s, b, h, q, k: s.div(5.0).tanh().mul(5.0),
    "causal soft cap": lambda s, b, h, q, k: torch.where(q >= k, 5.0 * torch.tanh(s / 5.0), -INF),
    "head bias": lambda s, b, h, q, k: s + HEAD_BIAS[h],
    "temperature by head": lambda s, b, h, q, k: s * SLOPES[h],
    "temperature by query": lambda s, b, h, q, k: s * torch.log(q + 2.0),
    "query bias": lambda s, b, h, q, k: s + QUERY_BIAS[h, q],
    "query scale": lambda s, b, h, q, k: s * QUERY_BIAS[h, q].sigmoid(),
    "key bias": lambda s, b, h, q, k: s + KEY_BIAS[b, k],
    "key bias by head": lambda s, b, h, q, k: s + FULL_KEY_BIAS[b, h, k],
    "outer product": lambda s, b, h, q, k: s + QUERY_BIAS[h, q] * KEY_BIAS[b, k],
    "segments": lambda s, b, h, q, k: torch.where(DOC[q] == DOC[k], s, s - 2.0),
    "documents": lambda s, b, h, q, k: torch.where(DOC[q] == DOC[k], s, -INF),
    "decay": lambda s, b, h, q, k: s * torch.exp(-0.02 * (q - k).abs()),
    "Gaussian": lambda s, b, h, q, k: s - ((q - k) / 10.0) ** 2,
    "logarithmic distance": lambda s, b, h, q, k: s - SLOPES[h] * torch.log1p(2.0 * (q - k).abs()),
    "inverse distance": lambda s, b, h, q, k: s + 1 / (1 + (q - k).abs()),
    "power of distance": lambda s, b, h, q, k: s - 0.3 * (q - k).abs() ** 0.5,
    "half-life": lambda s, b, h, q, k: s * 2 ** (-(q - k).abs() / 32),
    "clipped distance": lambda s, b, h, q, k: s + 0.1 * (q - k).clamp(-8, 8),
    "distance, clipped above": lambda s, b, h, q, k: s - 0.1 * torch.clamp((q - k).abs(), max=20),
    "distance in blocks": lambda s, b, h, q, k: s - (q // 32 - k // 32).abs(),
    "steps of distance": lambda s, b, h, q, k: s - ((q - k) // 16).float(),
    "periodic": lambda s, b, h, q, k: s + 0.25 * ((q - k) % 5),
    "checkerboard": lambda s, b, h, q, k: torch.where((q + k) % 2 == 0, s * 2, s),
    "sign of distance": lambda s, b, h, q, k: s + torch.sign(q - k),
    "bonus by a condition": lambda s, b, h, q, k: s + (q == k) * 3.0 + (k < 4).float(),
    "conditions in a row": lambda s, b, h, q, k: torch.where(k < 9, s, torch.where((q > 50) | (k > 60), s - 1, 2 * s)),
    "positive scores": lambda s, b, h, q, k: torch.where(s > 0, s, 0.1 * s),
    "sparse scores": lambda s, b, h, q, k: torch.where(s > -0.5, s, -INF),
    "relu": lambda s, b, h, q, k: torch.relu(s) + s.sigmoid(),
    "gelu and silu": lambda s, b, h, q, k: torch.nn.functional.gelu(s) + torch.nn.functional.silu(s),
    "limits": lambda s, b, h, q, k: torch.minimum(torch.maximum(s, k / 500.0), torch.tensor(0.8)),
    "squares": lambda s, b, h, q, k: s.square() + torch.sqrt(1 + s * s) - s.neg(),
    "waves": lambda s, b, h, q, k: s + 0.3 * torch.cos((q - k) / 4) + 0.1 * torch.sin(s) + 0.1 * torch.floor(3 * s),
    "an image": lambda s, b, h, q, k: s - 0.2 * ((q % WIDTH - k % WIDTH).abs() + (q // WIDTH - k // WIDTH).abs()),
    "by problem": lambda s, b, h, q, k: s * (1 + b),
    "by problem and head": lambda s, b, h, q, k: s + (b * HEADS + h) * 0.1 * k / LENGTH,
    "integers": lambda s, b, h, q, k: s + (h % 2).to(s.dtype) * 0.1 * (k - q),
}


def two_lines(b, h, q, k):
    if q >= k:
        return k > 3
    return k > 5


PAIRS = torch.randn(LENGTH, LENGTH)
TABLE = torch.randn(2 * LENGTH)

#: Functions that are refused as masks (with four arguments) or scores, and what the error says.
REFUSED = {
    "a bias of pairs": (
        lambda s, b, h, q, k: s + PAIRS[q, k],
        r"192 x 192 is read at a place .* query and key at once",
    ),
    "a mask of pairs": (lambda b, h, q, k: PAIRS[q, k] > 0, "192 x 192 is read at a place"),
    "a table of distances": (lambda s, b, h, q, k: s + TABLE[q - k + LENGTH], "384 is read at a place"),
    "if": (two_lines, r"`bool` reads a value(?s:.*)if q >= k:(?s:.*)torch\.where"),
    "and": (lambda b, h, q, k: q >= k and k > 3, "`bool` reads a value"),
    "a number of Python": (lambda s, b, h, q, k: s + int(q), "`int` reads a value"),
    "item": (lambda s, b, h, q, k: s + q.item(), "`item` reads a value"),
    "bits of a distance": (lambda b, h, q, k: (q - k) & (q - k - 1) == 0, "a bitwise operation of integers"),
    "exclusive or of indices": (lambda b, h, q, k: (q ^ k) < 16, r"`\^` of integers"),
    "a function without a word": (lambda s, b, h, q, k: s + torch.erf(s), "`erf` of a value that depends on the score"),
    "a remainder of scores": (lambda s, b, h, q, k: s % 1.0, "by something that is no positive integer"),
    "a remainder of a product": (lambda b, h, q, k: (q * k) % 7 == 0, "of a product of values"),
    "integers that f32 does not hold": (
        lambda b, h, q, k: q * 1000 * k < 9,
        "up to 36481000, and f32 holds those up to",
    ),
    "an integer of a score": (lambda s, b, h, q, k: s.long() * 1.0, "becomes an integer"),
    "a power": (lambda s, b, h, q, k: s**2.5, "a power of neither"),
    "a slice": (lambda b, h, q, k: DOCS[b, :][q] == 0, "a tensor is indexed by slice"),
    "a tensor that is not indexed": (lambda s, b, h, q, k: s + SLOPES, "a tensor of 4 is used where one number is"),
    "an index that is missing": (lambda s, b, h, q, k: s + KEY_BIAS[b], "2 dimensions is used with 1"),
    "an index too many": (lambda s, b, h, q, k: s + SLOPES[h, q], "1 dimensions has 2 indices"),
    "a sum": (lambda s, b, h, q, k: s.sum(), "`sum` is no operation on one score"),
    "no value": (lambda s, b, h, q, k: "score", "the score_mod returns a str"),
}
