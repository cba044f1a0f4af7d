//! The dense library beside the kernels: one baseline for each product of equal work and equal layouts.

use std::time::Duration;

use bsr::bench::{Candidate, DenseBaseline, InterleaveOptions, Timing, Work};
use bsr::gpu::cublaslt::{CublasLt, DenseProblem, types_in_words};
use bsr::gpu::{Device, GpuError};
use bsr::{KernelSpec, Layout};
use bsr_codegen::Operand;
use bsr_runtime::extents::sparse_operand;

use super::exit::Failure;
use super::report::Report;

/// The dense library, or why there is none, and the products it was asked for.
pub(super) struct Dense {
    device: Device,
    seed: u64,
    precise: bool,
    library: Result<CublasLt, GpuError>,
    products: Vec<(DenseProblem, DenseBaseline)>,
    /// Why a product has no baseline.
    notes: Vec<String>,
}

impl Dense {
    /// Loads the library. Where there is none, kernels are timed all the same. `precise`: FP8 is summed in f32
    /// registers, and not in the tensor core.
    pub(super) fn new(device: &Device, seed: u64, precise: bool) -> Self {
        let library = CublasLt::new(device);
        let notes = library.as_ref().err().map(|error| format!("without ratio: {error}")).into_iter().collect();
        Self { device: device.clone(), seed, precise, library, products: Vec::new(), notes }
    }

    /// Asks for the product of equal work, unless it is there; the library's algorithms are timed and the fastest
    /// taken. What the library does not multiply is noted.
    ///
    /// # Errors
    /// Those of the device.
    pub(super) fn add(&mut self, work: &Work, spec: &KernelSpec) -> Result<(), Failure> {
        if self.library.is_err() {
            return Ok(());
        }
        let Some(problem) = self.problem(work, spec) else {
            self.note(NO_WORK.to_owned());
            return Ok(());
        };
        let types = [work.a, work.b, work.out];
        if problem.types != types {
            self.note(format!(
                "cuBLASLt does not multiply {}: those kernels are held against {}",
                types_in_words(&types),
                types_in_words(&problem.types)
            ));
        }
        if self.products.iter().any(|(there, _)| *there == problem) {
            return Ok(());
        }
        let Ok(library) = &self.library else { return Ok(()) };
        match DenseBaseline::new(library, &problem, self.seed) {
            Ok(mut baseline) => {
                let opts = InterleaveOptions {
                    min_repeats: 6,
                    max_repeats: 12,
                    time_limit: Duration::from_secs(2),
                    ..InterleaveOptions::default()
                };
                baseline.tune(&self.device, &opts)?;
                self.products.push((problem, baseline));
            }
            Err(error @ (GpuError::DenseProblem { .. } | GpuError::CublasLt { .. })) => {
                self.note(format!("without ratio: {error}"));
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Operations of the product of equal work, which is not asked for yet.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn promise(&self, work: &Work, spec: &KernelSpec) -> Result<u64, String> {
        self.library.as_ref().map_err(|error| format!("without ratio: {error}"))?;
        self.problem(work, spec).map(|problem| problem.flops()).ok_or_else(|| NO_WORK.to_owned())
    }

    /// The products as candidates, in their order.
    pub(super) fn candidates(&self) -> impl Iterator<Item = Candidate<'_>> {
        self.products.iter().map(|(_, baseline)| baseline.candidate())
    }

    /// The number of the product of equal work.
    pub(super) fn equal(&self, work: &Work, spec: &KernelSpec) -> Option<usize> {
        let problem = self.problem(work, spec)?;
        self.products.iter().position(|(there, _)| *there == problem)
    }

    /// Product `at` as a candidate.
    pub(super) fn candidate(&self, at: usize) -> Candidate<'_> {
        self.products[at].1.candidate()
    }

    /// Why products have no baseline.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// K of product `at`.
    pub(super) fn k(&self, at: usize) -> usize {
        self.products[at].0.k
    }

    /// The selected algorithm of product `at`, in the library's numbers.
    pub(super) fn algorithm(&self, at: usize) -> String {
        self.products[at].1.algorithm()
    }

    /// Adds the products, with their times, and the notes to the report.
    pub(super) fn describe(&self, timings: &[Timing], report: &mut Report) {
        let version = self.library.as_ref().map(CublasLt::version).unwrap_or_default();
        for ((problem, baseline), timing) in self.products.iter().zip(timings) {
            let words = words(problem);
            report.note(format!("{words}: cuBLASLt {version}, {}", baseline.algorithm()));
            report.add_dense(words, timing, problem.flops());
        }
        self.notes.iter().for_each(|note| report.note(note.clone()));
    }

    fn problem(&self, work: &Work, spec: &KernelSpec) -> Option<DenseProblem> {
        problem(work, spec).map(|problem| if self.precise { problem.precise() } else { problem })
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// Why an empty matrix has no baseline.
const NO_WORK: &str = "without ratio: no block is stored, so there is no equal work";

/// A product in the words of a spec: `dense, K = 1024, bf16, b_layout = col`.
fn words(problem: &DenseProblem) -> String {
    let [a, b, c] = problem.types;
    let mut words = format!("dense, K = {}, {a}", problem.k);
    if b != a {
        words.push_str(&format!(" x {b}"));
    }
    if c != a {
        words.push_str(&format!(", out = {c}"));
    }
    if problem.tf32 {
        words.push_str(", tf32 = on");
    }
    if a.is_fp8() {
        words.push_str(&format!(", accumulate = {}", if problem.fast { "fast" } else { "promoted" }));
    }
    for (key, layout) in ["a_layout", "b_layout", "c_layout"].into_iter().zip(problem.layouts) {
        if layout != Layout::RowMajor {
            words.push_str(&format!(", {key} = {layout}"));
        }
    }
    words
}

/// The dense product of equal work, with the layouts of the kernel, and its types or the nearest that the library has;
/// in the place of the sparse factor is a matrix whose rows are contiguous, as in a block (columns, if it is transposed). FP8 is summed as the library does it fastest, whatever the kernel does.
fn problem(work: &Work, spec: &KernelSpec) -> Option<DenseProblem> {
    let [m, n, k] = work.equal_dense()?;
    let sparse = if spec.transpose.is_on() { Layout::ColMajor } else { Layout::RowMajor };
    let (a, b) = match sparse_operand(spec.op) {
        Operand::A => (sparse, spec.b_layout),
        Operand::B => (spec.a_layout, sparse),
        _ => (spec.a_layout, spec.b_layout),
    };
    let layouts = [a, b, spec.c_layout];
    let problem = DenseProblem::new((m, n, k), DenseProblem::nearest([work.a, work.b, work.out]), layouts);
    Some(if spec.tf32.is_on() { problem.in_tf32() } else { problem })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn equal(spec: &str) -> Option<DenseProblem> {
        let spec: KernelSpec = spec.parse().unwrap();
        let block = (spec.bm as usize, spec.bk as usize);
        let work = Work {
            op: spec.op,
            transpose: spec.transpose,
            m: 8192,
            n: 1000,
            k: 8288,
            block,
            nnzb: 256,
            products: None,
            a: spec.a,
            b: spec.b,
            out: spec.out,
        };
        problem(&work, &spec)
    }

    #[test]
    fn the_dense_product_has_equal_work_and_the_layouts_of_the_kernel() {
        let flagship = equal("bm = 512, bn = 128, bk = 112").unwrap();
        assert_eq!((flagship.m, flagship.n, flagship.k), (8192, 1000, 1792));
        assert_eq!(words(&flagship), "dense, K = 1792, f16");
        let linear =
            equal("bm = 512, bn = 128, bk = 112, dtype = bf16, out = f32, b_layout = col, c_layout = col").unwrap();
        assert_eq!(linear.ld[1..], [1792, 8192]);
        assert_eq!(words(&linear), "dense, K = 1792, bf16, out = f32, b_layout = col, c_layout = col");
    }

    #[test]
    fn eight_bit_products_are_named_by_what_the_library_multiplies() {
        let mixed = equal("bm = 512, bn = 128, bk = 128, a = e4m3, b = e5m2").unwrap();
        assert_eq!(words(&mixed), "dense, K = 2048, e4m3 x e5m2, out = bf16, accumulate = fast, b_layout = col");
        let precise = words(&mixed.precise());
        assert_eq!(precise, "dense, K = 2048, e4m3 x e5m2, out = bf16, accumulate = promoted, b_layout = col");
        let nearest = equal("bm = 512, bn = 128, bk = 128, dtype = e5m2, accumulate = promoted").unwrap();
        assert_eq!(words(&nearest), "dense, K = 2048, e4m3, out = bf16, accumulate = fast, b_layout = col");
        let integers = equal("bm = 512, bn = 128, bk = 128, dtype = i8, out = f16, scale = tensor").unwrap();
        assert_eq!(words(&integers), "dense, K = 2048, i8, out = i32, b_layout = col");
    }
}
