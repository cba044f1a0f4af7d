//! Prints the PTX, or with `--plan` the plan, of the spec given as the first argument.
use bsr_codegen::{Arch, KernelSpec, Plan};

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let spec: KernelSpec = args[1].parse().unwrap_or_else(|e| panic!("{e}"));
    match Plan::new(&spec, &Arch::SM_90A) {
        Ok(plan) if args.len() > 2 => print!("{plan}"),
        Ok(plan) => print!("{}", plan.ptx().text()),
        Err(errors) => {
            eprintln!("{errors}");
            std::process::exit(2)
        }
    }
}
