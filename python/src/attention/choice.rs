//! Which of several masks, and which of their kernels, an attention takes.

use bsr::KernelSpec;
use bsr::auto::{choose_among, expected_us, fastest};
use bsr::tuner::pick::{Choice, Gpu, Tuner};
use pyo3::prelude::*;

use super::AttentionMask;
use crate::errors::refused;
use crate::gpu::shape;
use crate::threads::detached;

/// The number of the mask whose kernel should be the fastest on a card, the first one where the difference is small, and that
/// kernel's spec: of each mask the kernels of some specs are looked at. None where nothing is planned.
#[pyfunction]
pub(crate) fn choose_attention(
    py: Python<'_>,
    card: (String, (u32, u32)),
    candidates: Vec<(PyRef<'_, AttentionMask>, Vec<String>)>,
    q: [usize; 4],
    v: [usize; 4],
) -> PyResult<Option<(usize, String)>> {
    let (name, capability) = card;
    let masks = candidates.into_iter().map(|(mask, specs)| {
        let specs: Result<Vec<KernelSpec>, _> = specs.iter().map(|spec| spec.parse()).collect();
        Ok((mask.mask.clone(), specs.map_err(refused)?))
    });
    let masks: Vec<_> = masks.collect::<PyResult<_>>()?;
    detached(py, || {
        let tuner = Tuner::new(Gpu { name, driver: String::new(), capability });
        let shape = shape(q, v);
        let of = |(mask, specs): &(_, Vec<KernelSpec>)| choose_among(&tuner, specs, mask, &shape).ok();
        let choices: Vec<Option<Choice>> = masks.iter().map(of).collect();
        let times: Vec<Option<f64>> = choices.iter().map(|choice| expected_us(choice.as_ref()?)).collect();
        let at = fastest(&times);
        choices.get(at)?.as_ref().map(|choice| (at, choice.spec.to_string()))
    })
}
