//! Restarted GMRES on the CPU, as the kernels do it.

use bsr_codegen::solver::Status;

use super::{Check, System, add, dot};
use crate::Element;
use crate::solve::error::SolveError;
use crate::solve::request::Outcome;

impl<V: Element, T: Element> System<'_, V, T> {
    pub(super) fn gmres(
        &self,
        b: &[f64],
        x: &mut [f64],
        restart: usize,
        mut check: Check<'_, '_>,
    ) -> Result<Outcome, SolveError> {
        let mut broken = None;
        loop {
            let mut r = b.to_vec();
            add(&mut r, -1.0, &self.times(x));
            if let Some(outcome) = check.ended(&r, x, broken)? {
                return Ok(outcome);
            }
            broken = self.cycle(x, r, restart, &mut check);
        }
    }

    /// Adds the best correction of a Krylov space to x. What it answers is why the space is of no further use.
    fn cycle(&self, x: &mut [f64], r: Vec<f64>, restart: usize, check: &mut Check<'_, '_>) -> Option<Status> {
        let norm = dot(&r, &r).sqrt();
        let (mut right, mut basis) = (vec![norm], vec![scaled(r, norm)]);
        let (mut columns, mut rotations) = (Vec::<Vec<f64>>::new(), Vec::<(f64, f64)>::new());
        let mut broken = None;
        loop {
            let mut w = self.times(&self.preconditioned(&basis[columns.len()]));
            let mut column = vec![0.0; basis.len()];
            // Classical Gram-Schmidt, twice.
            for _ in 0..2 {
                let products: Vec<f64> = basis.iter().map(|v| dot(v, &w)).collect();
                basis.iter().zip(&products).for_each(|(v, product)| add(&mut w, -product, v));
                column.iter_mut().zip(products).for_each(|(sum, product)| *sum += product);
            }
            let (mut square, squares) = (dot(&w, &w), dot(&column, &column));
            let (all, negligible) = (squares + square, (squares + square) * f64::EPSILON.powi(2));
            if square <= negligible {
                square = 0.0;
            }
            for (at, (cosine, sine)) in rotations.iter().enumerate() {
                let (one, other) = (column[at], column[at + 1]);
                column[at] = cosine * one + sine * other;
                column[at + 1] = cosine * other - sine * one;
            }
            let last = column[columns.len()];
            let whole = last * last + square;
            if whole <= negligible || !all.is_finite() {
                broken = Some(if all.is_finite() { Status::Singular } else { Status::NotFinite });
                break;
            }
            let (cosine, sine) = (last / whole.sqrt(), square.sqrt() / whole.sqrt());
            column[columns.len()] = whole.sqrt();
            let before = right[columns.len()];
            right[columns.len()] = cosine * before;
            right.push(-sine * before);
            rotations.push((cosine, sine));
            columns.push(column);
            let residual = (sine * before).abs();
            if residual <= check.tolerance || check.iteration >= check.limit || columns.len() == restart {
                break;
            }
            check.options.tell(residual);
            check.iteration += 1;
            basis.push(scaled(w, square.sqrt()));
        }
        for at in (0..columns.len()).rev() {
            right[at] /= columns[at][at];
            for above in 0..at {
                right[above] -= right[at] * columns[at][above];
            }
        }
        let mut sum = vec![0.0; x.len()];
        (0..columns.len()).for_each(|at| add(&mut sum, right[at], &basis[at]));
        add(x, 1.0, &self.preconditioned(&sum));
        broken
    }
}

fn scaled(mut vector: Vec<f64>, norm: f64) -> Vec<f64> {
    vector.iter_mut().for_each(|value| *value /= norm);
    vector
}
