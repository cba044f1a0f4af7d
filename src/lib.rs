//! Write a block-sparse GEMM kernel as an attribute; get readable Hopper PTX at the dense library's speed.
