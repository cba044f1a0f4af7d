//! The `#[bsr_kernel]` attribute of bsr.
//!
//! Tokens -> `Request` -> `KernelSpec` -> `Plan` -> `Ptx` -> a type with constants, all while the attribute expands.
//! `bsr-codegen` embeds the templates with `include_str!`: editing one rebuilds every crate with a kernel.

mod args;
mod attention;
mod call;
mod compile;
mod diagnose;
mod epilogue;
mod expand;
mod fallback;
mod family;
mod inputs;
mod item;
mod kernel;
mod library;
mod literal;
mod signature;
mod surroundings;
#[cfg(test)]
mod tests;
mod types;

use proc_macro::TokenStream;

/// Makes a block-sparse kernel from a function without a body, or from a unit struct.
///
/// ```ignore
/// #[bsr_kernel(bm = 512, bn = 128, bk = 112)]
/// pub fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;
///
/// #[bsr_kernel(bm = 64, bn = 256, bk = 64, dtype = bf16, out = f32)]
/// pub struct Spmm;
/// ```
///
/// The item becomes a unit struct that implements `bsr::Kernel` and has the constants `SPEC`, `PTX`, `ENTRY` and
/// `FINGERPRINT` and the function `plan()`. Its documentation ends with the plan as a table. The keys are those of
/// `bsr::KernelSpec`; on a function the operand types give the dtypes.
///
/// # Families
/// Where a value is a list or a range, the item becomes a family: a kernel for every combination.
///
/// ```ignore
/// #[bsr_kernel(bm = 128, bn = [128, 256], bk = 64, stages = 3..=5, dtype = [f16, bf16])]
/// pub fn spmm<T>(a: Bsr<T>, b: Dense<T>) -> Dense<T>;
///
/// let kernel = spmm::load_where::<f16, f16, f16>(&device, |spec| spec.bn == 128)?;
/// let kernel = spmm_members::bn256_stages4_bf16::load(&device)?;
/// ```
///
/// The type implements `bsr::Family`, whose `MEMBERS` are the kernels in order of the lists, the first list slowest.
/// Every member is a kernel like any other, a type in the module `NAME_members`, named after its values. What cannot
/// be planned is omitted, and the documentation of the item says why; an attribute none of whose kernels can be
/// planned is an error. At most 64 kernels are embedded.
///
/// Type parameters of the function are element types: one dtype wherever the parameter is used, taken from the
/// lists of `dtype`, `a`, `b` or `out`.
///
/// # Other GPUs
/// A kernel of `mma = wgmma` runs on Hopper alone. `fallback = on` embeds the best kernels for other GPUs beside it, of
/// `mma_sync`, `wmma` or `scalar`, and a device loads the best that it runs:
///
/// ```ignore
/// #[bsr_kernel(bm = 512, bn = 128, bk = 112, fallback = on)]
/// fn spmm(a: Bsr<f16>, b: Dense<f16>) -> Dense<f16>;
/// ```
///
/// They compute the same product, and choices such as `cluster` or `stages` are of the Hopper kernel alone. What only Hopper
/// has (epilogues, scales, batches, operations other than `dsd`) is refused. The documentation of the type says which
/// kernels there are and how many bytes each adds to the program.
///
/// # Epilogues
/// The body of a function computes the result from each sum, `acc`, before it is written; it may read further operands.
///
/// ```ignore
/// #[bsr_kernel(bm = 128, bn = 256, bk = 64)]
/// fn ffn_up(a: Bsr<bf16>, b: Dense<bf16>, bias: Rows<f32>, res: Dense<bf16>, alpha: f32) -> Dense<bf16> {
///     gelu(alpha * acc + bias) + res
/// }
///
/// let inputs = ffn_up_inputs { bias: &bias, res: &res, alpha: 0.5 };
/// ffn_up::load(&device)?.launch(&stream, (&a, &b, inputs), &mut c)?;
/// ```
///
/// `Rows<T>` has an element for every row of C, `Cols<T>` for every column, `Dense<T>` for every element. A body that ends
/// in `(x, row_sum(y))` or `(x, row_max(y))` has a second result, `-> (Dense<bf16>, Rows<f32>)`, and is launched with
/// `(&mut c, &mut rows)`. The language is that
/// of `bsr::epilogue`; the type `NAME_inputs` has a field for every further operand.
///
/// # The library's path
/// The attribute finds the library where `Cargo.toml` has it, renamed or not:
/// `sparse = { package = "bsr-gemm", version = "0.1" }`. A crate that reaches it through another one says how, with a path
/// that holds everywhere in the crate: `crate = other::bsr`, or `crate = $crate::bsr` in a macro of that other crate.
///
/// # Errors
/// Everything wrong with the attribute or the item is a compile error on the guilty token; the type is emitted
/// nevertheless, so that its users see no further errors.
#[proc_macro_attribute]
pub fn bsr_kernel(args: TokenStream, item: TokenStream) -> TokenStream {
    expand::expand(args.into(), item.into(), &proc_macro_crate::crate_name(library::PACKAGE)).into()
}
