//! Block-sparse matrices: what is accepted, what is refused and how, and the way to dense and back.

mod corruption;
mod parts;
mod sharding;
mod transposed;
mod validation;
mod values;
