//! Kernels are not called.

/// What the arguments of a kernel would have to be for a call of it as a function: no type is.
#[diagnostic::on_unimplemented(
    message = "`{Kernel}` is a kernel, which is not called like a function",
    label = "a kernel is loaded on a device or runs on the simulator",
    note = "load it and launch it: `{Kernel}::load(&device)?.multiply((&a, &b))?`"
)]
pub trait Called<Kernel> {}
