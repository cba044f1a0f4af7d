//! The same methods on the CPU, in f64.

use bsr_codegen::solver::{Method, Status};
use rayon::prelude::*;

mod gmres;

use super::error::{Breakdown, SolveError};
use super::jacobi;
use super::request::{Options, Outcome, Preconditioner, Solution, check_lengths, kernels};
use crate::{Bsr, Element};

/// Solves A x = b on the CPU, with vectors and sums in f64. The values of A may be of a narrower type than b.
///
/// # Errors
/// [`SolveError::Refused`], [`SolveError::Breakdown`].
pub fn on_host<V: Element, T: Element>(
    a: &Bsr<V>,
    request: (Method, Preconditioner),
    (b, x0): (&[T], Option<&[T]>),
    options: &mut Options<'_>,
) -> Result<Solution<T>, SolveError> {
    let mut x = x0.map_or_else(|| vec![T::ZERO; a.rows()], <[T]>::to_vec);
    let (iterations, residual, converged) = on_host_into(a, request, (b, &mut x), options)?;
    Ok(Solution { x, iterations, residual, converged })
}

/// The same from the x that is there, into it, where a method has broken down also: iterations, the norm of the residual, and
/// whether that is small enough.
///
/// # Errors
/// As [`on_host`].
#[doc(hidden)]
pub fn on_host_into<V: Element, T: Element>(
    a: &Bsr<V>,
    (method, preconditioner): (Method, Preconditioner),
    (b, x): (&[T], &mut [T]),
    options: &mut Options<'_>,
) -> Result<(usize, f64, bool), SolveError> {
    let (_, module) = kernels::<V, T>(a.structure(), method, preconditioner)?;
    check_lengths(a.rows(), b.len(), Some(x.len()))?;
    let inverse = (preconditioner == Preconditioner::BlockJacobi).then(|| jacobi::inverses(a)).transpose()?;
    let system = System::<V, T> { a, inverse };
    let wide = |vector: &[T]| vector.iter().map(|value| value.to_f64()).collect::<Vec<_>>();
    let mut found = wide(x);
    let ended = system.solve(module.method(), &wide(b), &mut found, options);
    x.iter_mut().zip(found).for_each(|(x, found)| *x = T::from_f64(found));
    ended.map(|Outcome { iterations, residual, converged }| (iterations, residual, converged))
}

/// A matrix of values in `V`, and the inverses of its diagonal blocks in the type of the vectors.
struct System<'a, V, T> {
    a: &'a Bsr<V>,
    inverse: Option<Vec<T>>,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// to += coefficient * times.
fn add(to: &mut [f64], coefficient: f64, times: &[f64]) {
    to.iter_mut().zip(times).for_each(|(to, times)| *to += coefficient * times);
}

/// When a solve ends.
struct Check<'o, 'c> {
    options: &'o mut Options<'c>,
    tolerance: f64,
    limit: usize,
    iteration: usize,
}

impl Check<'_, '_> {
    /// How a solve has ended with a residual and an x, if it has; otherwise the next iteration begins, unless the method is
    /// broken.
    fn ended(&mut self, r: &[f64], x: &[f64], broken: Option<Status>) -> Result<Option<Outcome>, SolveError> {
        let (residual, iterations) = (dot(r, r).sqrt(), self.iteration);
        let converged = residual <= self.tolerance;
        let is_last = converged || iterations >= self.limit;
        let broken = if residual.is_finite() { broken.filter(|_| !is_last) } else { Some(Status::NotFinite) };
        self.holds(broken.is_none(), broken.unwrap_or(Status::Running))?;
        if iterations > 0 {
            self.options.tell(residual);
            if let Some(watch) = &mut self.options.watch {
                watch(x);
            }
        }
        self.iteration += usize::from(!is_last);
        Ok(is_last.then_some(Outcome { iterations, residual, converged }))
    }

    /// Whether the method goes on in this iteration.
    fn holds(&self, condition: bool, status: Status) -> Result<(), SolveError> {
        if condition { Ok(()) } else { Err(Breakdown::new(status, self.iteration).into()) }
    }

    /// Whether it goes on after the one before.
    fn held(&self, condition: bool, status: Status) -> Result<(), SolveError> {
        if condition { Ok(()) } else { Err(Breakdown::new(status, self.iteration - 1).into()) }
    }
}

impl<V: Element, T: Element> System<'_, V, T> {
    fn solve(
        &self,
        method: Method,
        b: &[f64],
        x: &mut [f64],
        options: &mut Options<'_>,
    ) -> Result<Outcome, SolveError> {
        let (limit, norm) = (options.limit(b.len())?, dot(b, b).sqrt());
        let tolerance = options.tolerance(norm)?;
        if norm == 0.0 {
            x.fill(0.0);
            return Ok(Outcome { iterations: 0, residual: 0.0, converged: true });
        }
        let mut r = b.to_vec();
        add(&mut r, -1.0, &self.times(x));
        let check = Check { options, tolerance, limit, iteration: 0 };
        match method {
            Method::Cg => self.cg(x, r, check),
            Method::Bicgstab => self.bicgstab(x, r, check),
            Method::Gmres { restart } => self.gmres(b, x, restart as usize, check),
        }
    }

    fn cg(&self, x: &mut [f64], mut r: Vec<f64>, mut check: Check<'_, '_>) -> Result<Outcome, SolveError> {
        let (mut p, mut before) = (vec![0.0; r.len()], 1.0);
        loop {
            if let Some(outcome) = check.ended(&r, x, None)? {
                return Ok(outcome);
            }
            let z = self.preconditioned(&r);
            let rho = dot(&r, &z);
            check.held(rho > 0.0, Status::Rho)?;
            p.iter_mut().zip(&z).for_each(|(p, z)| *p = z + rho / before * *p);
            let q = self.times(&p);
            let curvature = dot(&p, &q);
            check.holds(curvature < f64::INFINITY, Status::NotFinite)?;
            check.holds(curvature > 0.0, Status::Curvature)?;
            let alpha = rho / curvature;
            add(x, alpha, &p);
            add(&mut r, -alpha, &q);
            before = rho;
        }
    }

    fn bicgstab(&self, x: &mut [f64], mut r: Vec<f64>, mut check: Check<'_, '_>) -> Result<Outcome, SolveError> {
        let (shadow, mut p, mut v) = (r.clone(), vec![0.0; r.len()], vec![0.0; r.len()]);
        let (mut before, mut alpha, mut omega) = (1.0, 1.0, 1.0);
        loop {
            if let Some(outcome) = check.ended(&r, x, None)? {
                return Ok(outcome);
            }
            let rho = dot(&shadow, &r);
            check.held(omega != 0.0, Status::Omega)?;
            check.held(rho != 0.0, Status::Rho)?;
            let beta = rho / before * (alpha / omega);
            add(&mut p, -omega, &v);
            p.iter_mut().zip(&r).for_each(|(p, r)| *p = r + beta * *p);
            let u = self.preconditioned(&p);
            v = self.times(&u);
            let along = dot(&shadow, &v);
            check.holds(along != 0.0, Status::Shadow)?;
            alpha = rho / along;
            add(&mut r, -alpha, &v);
            add(x, alpha, &u);
            before = rho;
            if dot(&r, &r).sqrt() <= check.tolerance {
                continue;
            }
            let w = self.preconditioned(&r);
            let y = self.times(&w);
            let square = dot(&y, &y);
            check.holds(square != 0.0, Status::Omega)?;
            omega = dot(&y, &r) / square;
            add(x, omega, &w);
            add(&mut r, -omega, &y);
        }
    }

    /// A x.
    fn times(&self, x: &[f64]) -> Vec<f64> {
        let (bm, bk) = self.a.block();
        let mut y = vec![0.0; self.a.rows()];
        y.par_chunks_mut(bm).enumerate().with_min_len(512).for_each(|(block_row, y)| {
            for block in self.a.blocks_of(block_row) {
                let first = self.a.col_idx()[block] as usize * bk;
                let x = &x[first..(first + bk).min(x.len())];
                for (y, row) in y.iter_mut().zip(self.a.block_values(block).chunks_exact(bk)) {
                    *y += row.iter().zip(x).map(|(a, x)| a.to_f64() * x).sum::<f64>();
                }
            }
        });
        y
    }

    /// M r.
    fn preconditioned(&self, r: &[f64]) -> Vec<f64> {
        let Some(inverse) = &self.inverse else { return r.to_vec() };
        let side = self.a.block().0;
        let mut z = vec![0.0; r.len()];
        let blocks = z.chunks_mut(side).zip(r.chunks(side)).zip(inverse.chunks_exact(side * side));
        for ((z, r), block) in blocks {
            for (z, row) in z.iter_mut().zip(block.chunks_exact(side)) {
                *z = row.iter().zip(r).map(|(a, r)| a.to_f64() * r).sum();
            }
        }
        z
    }
}
