"""Tensor maps in im2col mode, given to ``bsr_gemm.sanitize``."""

from __future__ import annotations

import numpy as np
import pytest

import bsr_gemm as bsr

CHANNELS, PIXELS = 8, 16

#: One thread copies PIXELS pixels of one tap of a filter, from (w, h, n) on, and 128 threads show them.
COLUMN = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry column(.param .align 64 .b8 map[128], .param .u64 out, .param .u32 w, .param .u32 h, .param .u32 n,
                       .param .u16 right, .param .u16 down)
.reqntid 128, 1, 1
{
    .reg .b16 %h<2>; .reg .b32 %r<12>; .reg .b64 %d<5>; .reg .pred %p<3>;
    .shared .align 128 .b8 tile[512]; .shared .align 8 .b8 bar[8];
    mov.u32 %r1, %tid.x; setp.eq.u32 %p0, %r1, 0; mov.u32 %r2, tile; mov.u32 %r3, bar;
    mov.b64 %d0, map; cvta.param.u64 %d0, %d0; ld.param.u64 %d1, [out];
    ld.param.u32 %r6, [w]; ld.param.u32 %r7, [h]; ld.param.u32 %r8, [n]; ld.param.u16 %h0, [right]; ld.param.u16 %h1, [down];
    mov.u32 %r9, 0;
    @%p0 mbarrier.init.shared.b64 [%r3], 1;
    @%p0 fence.proxy.async;
    bar.sync 0;
    @%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 512;
    @%p0 cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%r2], [%d0, {%r9, %r6, %r7, %r8}], [%r3], {%h0, %h1};
wait:
    mbarrier.try_wait.parity.shared.b64 %p1, [%r3], 0;
    @!%p1 bra wait;
    mad.lo.u32 %r4, %r1, 4, %r2; ld.shared.b32 %r5, [%r4];
    mul.wide.u32 %d2, %r1, 4; add.u64 %d3, %d1, %d2; st.global.b32 [%d3], %r5;
    ret;
}
"""


def images(**changed):
    """Two images of 9 x 11 pixels, and their map for a filter of 3 x 3 with a padding of 1."""
    x = np.arange(2 * 9 * 11 * CHANNELS, dtype=np.float32).reshape(2, 9, 11, CHANNELS) + 1
    told = {
        "pixel_box_lower_corner": (-1, -1),
        "pixel_box_upper_corner": (-1, -1),
        "channels_per_pixel": CHANNELS,
        "pixels_per_column": PIXELS,
    }
    return x, bsr.TensorMap.im2col(x, **(told | changed))


def column(tensor_map, first, tap, out=None):
    """The report on one column."""
    out = np.zeros((PIXELS, CHANNELS), np.float32) if out is None else out
    return bsr.sanitize(COLUMN, 1, (tensor_map, out, *first, *tap), schedules=2)


@pytest.mark.parametrize("tap", [(0, 0), (2, 1), (1, 2)])
@pytest.mark.parametrize("pixel", [0, 15, 2 * 9 * 11 - 5])
def test_a_column_is_a_tap_of_each_pixel(pixel, tap):
    x, tensor_map = images()
    n, h, w = np.unravel_index(pixel, (2, 9, 11))
    report = column(tensor_map, (w - 1, h - 1, n), tap)
    assert report.passed, report
    padded = np.zeros((3, 11, 13, CHANNELS), np.float32)
    padded[:2, 1:-1, 1:-1] = x
    places = [np.unravel_index(pixel + i, (3, 9, 11)) for i in range(PIXELS)]
    want = np.stack([padded[n, h + tap[1], w + tap[0]] for n, h, w in places])
    assert np.array_equal(report.arrays[1], want)


def test_a_filter_moves_in_steps():
    x, tensor_map = images(element_strides=(1, 2, 3, 1))
    report = column(tensor_map, (-1, -1, 0), (1, 1))
    assert report.passed, report
    # Six positions of a line, of which the first pixel is 0 and the second 2.
    want = [x[0, 3 * (i // 6 % 3), 2 * (i % 6)] for i in range(PIXELS)]
    assert np.array_equal(report.arrays[1], np.stack(want))


def test_coordinates_outside_the_box_are_a_finding():
    _, tensor_map = images()
    (wrong,) = column(tensor_map, (9 + 1, 0, 0), (0, 0)).errors
    assert wrong.kind == "tensor-copy" and "coordinate 1 is 10, and the pixel box goes from -1 to 9" in wrong.message


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"pixel_box_lower_corner": (-1,)}, "rank 4 has 2 spatial dimensions; the lower corner has 1"),
        ({"pixel_box_lower_corner": (-129, 0)}, "a corner of rank 4 is -128 to 127, not -129"),
        ({"pixel_box_upper_corner": (-12, 0)}, "the box of spatial dimension 0 is empty: from -1 to -2"),
        ({"pixels_per_column": 1025}, "box dimension 1 is 1 to 1024, not 1025"),
        ({"channels_per_pixel": 3}, "the inner box dimension is 12 bytes, not a multiple of 16"),
        ({"element_strides": (1, 1, 1, 2)}, "a stride of images other than 1 is not modelled: 2"),
        ({"element_strides": (1, 9, 1, 1)}, "an element stride is 1 to 8, not 9"),
        (
            {"pixel_box_upper_corner": 0},
            "pixel_box_upper_corner of the tensor map is 0\n  help: a list of whole numbers",
        ),
        (
            {"pixel_box_lower_corner": (0.5, 0)},
            r"pixel_box_lower_corner of the tensor map is \(0.5, 0\)\n  help: a list",
        ),
        (
            {"channels_per_pixel": -8},
            r"box of the tensor map is \[-8, 16\]\n  help: numbers from 0 to 4294967295; -8 is none",
        ),
    ],
)
def test_what_is_no_map_is_refused(changed, words):
    _, tensor_map = images(**changed)
    with pytest.raises(bsr.Error, match=words):
        column(tensor_map, (0, 0, 0), (0, 0))


def test_an_array_without_images_is_refused():
    flat = np.zeros((16, CHANNELS), np.float32)
    tensor_map = bsr.TensorMap.im2col(
        flat, pixel_box_lower_corner=(), pixel_box_upper_corner=(), channels_per_pixel=8, pixels_per_column=16
    )
    with pytest.raises(bsr.Error, match="an im2col tensor map has 3 to 5 dimensions, this one 2"):
        column(tensor_map, (0, 0, 0), (0, 0))
