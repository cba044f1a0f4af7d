"""Writes the .npz and .npy files of this folder: python make_npz.py (numpy and scipy; last run with scipy 1.17.1).

Every file but bsr_unsorted.npz and dense_several.npz holds the 12 x 10 matrix whose element at row r, column c is
(10 r + c + 1) / 8 where (3 r + 5 c) % 4 == 0 and 0 elsewhere. Its values are exact in float16.
"""

import numpy as np
from scipy import sparse

rows, cols = np.mgrid[0:12, 0:10]
dense = np.where((3 * rows + 5 * cols) % 4 == 0, (10 * rows + cols + 1) / 8, 0.0)


def indices_as(matrix, kind):
    matrix.indices, matrix.indptr = matrix.indices.astype(kind), matrix.indptr.astype(kind)
    return matrix


def values_as(matrix, kind):
    """scipy computes nothing in float16, but it stores it."""
    matrix.data = matrix.data.astype(kind)
    return matrix


sparse.save_npz("csr_f64_i32.npz", indices_as(sparse.csr_array(dense), np.int32))
sparse.save_npz("csr_f32_i64.npz", values_as(indices_as(sparse.csr_matrix(dense), np.int64), np.float32))
sparse.save_npz("csr_f16_plain.npz", values_as(sparse.csr_array(dense), np.float16), compressed=False)
sparse.save_npz("csc.npz", sparse.csc_array(dense))
sparse.save_npz("csr_complex.npz", sparse.csr_array(dense.astype(np.complex64)))

# Blocks of 4 x 2, all of them stored.
blocks = sparse.bsr_array((np.ascontiguousarray(dense.reshape(3, 4, 5, 2).transpose(0, 2, 1, 3)).reshape(15, 4, 2),
                           np.tile(np.arange(5), 3), np.arange(4) * 5), shape=(12, 10))
assert (blocks.toarray() == dense).all()
sparse.save_npz("bsr_f32_i32.npz", indices_as(values_as(blocks.copy(), np.float32), np.int32))
sparse.save_npz("bsr_f16_i64.npz", indices_as(values_as(blocks.copy(), np.float16), np.int64))

# Two block rows of 2 x 2 blocks: columns 2, 0, 2 (one place twice) and a block of zeros at column 1.
data = np.array([np.full((2, 2), v) for v in (1.0, 2.0, 4.0, 0.0)], dtype=np.float32)
unsorted = sparse.bsr_array((data, [2, 0, 2, 1], [0, 3, 4]), shape=(4, 6))
sparse.save_npz("bsr_unsorted.npz", unsorted)

sparse.save_npz("coo.npz", values_as(sparse.coo_array(dense), np.float32))
sparse.save_npz("dia.npz", sparse.dia_array(dense))
# What `coo` files of later scipy will hold.
coo = sparse.coo_array(dense)
np.savez("coo_coords.npz", format=b"coo", shape=coo.shape, data=coo.data, coords=coo.coords, _is_array=True)

np.save("dense_f16_fortran.npy", np.asfortranarray(dense.astype(np.float16)))
np.savez("dense_several.npz", first=dense, second=dense[:, :5].astype(np.float32), bias=dense[0], count=np.arange(3))
