//! The way on the simulator: what each step computes, and with how many instructions.

use std::error::Error;

use bsr::arguments::{Nothing, Single};
use bsr::gpu::Plain;
use bsr::operation::Dsd;
use bsr::reference::{self, Comparison};
use bsr::simulated::Options;
use bsr::{Bsr, Dense, Element, Kernel, Layout, Pattern};

use crate::steps::{self, B_LAYOUTS, BLOCK, Walk};

/// One block row, two of its three blocks stored, and one tile of the widest step.
const M: usize = BLOCK.0;
const N: usize = 256;
const K: usize = 3 * BLOCK.1;
const STORED: usize = 2;

/// The operands in one type, and their product.
struct Scene<T: Element> {
    a: Bsr<T>,
    b: Dense<T>,
    want: Vec<f64>,
}

impl<T: Element> Scene<T> {
    fn new(b_layout: Layout) -> Result<Self, Box<dyn Error>> {
        let a = Bsr::<T>::generate(Pattern::TopK(STORED), M, K, BLOCK, 1)?;
        let b = Dense::<T>::normal(K, N, b_layout, 2);
        let want = reference::multiply(&a, &b)?;
        Ok(Self { a, b, want })
    }
}

impl<T: Element + Plain> Walk<T> for Scene<T> {
    fn step<S>(&mut self, name: &'static str, _: Option<f64>) -> Result<(), Box<dyn Error>>
    where
        S: Kernel<Op = Dsd, A = T, B = T, Further = Nothing, Returns = Single>,
    {
        let (c, report) = S::simulate((&self.a, &self.b), &Options::default())?;
        let compared = Comparison::new(&c.to_f64(), &self.want, N)?;
        if !compared.passes(reference::tolerance_of(&S::SPEC, STORED * BLOCK.1)) || !report.is_clean() {
            return Err(format!("{name} is wrong: {compared}; {:?}", report.findings).into());
        }
        let (products, instructions) = (M * N * STORED * BLOCK.1, report.cost.steps);
        let each = products as f64 / instructions as f64;
        println!("{name:<22} {instructions:>12} {each:>9.1} {:>9.1e}  {}", compared.relative, S::SPEC);
        Ok(())
    }
}

/// Runs every step, and prints a line of each.
pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    println!("C[{M}, {N}] = A * B, with {STORED} blocks of {} x {} of A stored\n", BLOCK.0, BLOCK.1);
    println!("{:<22} {:>12} {:>9} {:>9}  spec", "step", "instructions", "products", "error");
    let [half, eighth] = B_LAYOUTS;
    steps::half(&mut Scene::new(half)?)?;
    steps::eighth(&mut Scene::new(eighth)?)?;
    println!(
        "\ninstructions: those of all warps. products: multiply-adds of the product for one of them.\n\
         Each result agrees with an f64 reference, and the simulator found no race and no misused barrier."
    );
    Ok(())
}
