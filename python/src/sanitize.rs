//! PTX of any origin on the simulator.

use std::slice;

use bsr_simulator::{GlobalMemory, Launch, Module, Param, Role, parse};
use bsr_trial::sanitize::{
    After, Allow, Buffer, Corners, Element, Limits, Placed, Prepared, Subject, TensorMap, allow, as_json, entry, rule,
    text, verdict,
};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

use crate::errors::refused;
use crate::threads::detached;

/// Name, address, bytes, element type, elements in each dimension, the power of two that its address in the simulator is a
/// multiple of, whether schedules must agree about it.
type Array = (String, usize, usize, String, Vec<u64>, u64, bool);
/// Grid, cluster, block, bytes of dynamic shared memory, whether an earlier kernel may still run.
type Shape = ([u32; 3], [u32; 3], [u32; 3], u32, bool);
/// Schedules, seed, warp instructions of a cluster, the tolerance of results.
type Asked = (u32, u64, u64, Option<f64>);
/// Name, bytes, type of the declaration, and what it is: `value`, `buffer` or `tensor map`.
type Declared = (String, u32, String, &'static str);
/// The report as JSON, the same for people, what the arrays hold afterwards, remarks.
type Sanitized = (String, String, Vec<Py<PyBytes>>, Vec<String>);

/// The number of an array, extents, strides in bytes, the box, element strides, the corners of im2col mode, the swizzle's span,
/// whether NaN is outside.
type Mapped =
    (usize, Option<Vec<u64>>, Option<Vec<u64>>, Vec<u32>, Option<Vec<u32>>, Option<(Vec<i32>, Vec<i32>)>, u32, bool);

/// What a parameter is given.
#[derive(FromPyObject)]
enum Argument {
    /// Its bytes.
    Value(PyBackedBytes),
    /// The address of an array, by its number.
    Buffer(usize),
    /// A tensor map of an array.
    Map(Mapped),
}

/// A kernel of a text.
#[pyclass(frozen)]
pub(crate) struct Foreign {
    module: Module,
    /// The kernel.
    #[pyo3(get)]
    entry: String,
}

#[pymethods]
impl Foreign {
    #[new]
    #[pyo3(signature = (ptx, name=None))]
    fn new(ptx: &str, name: Option<&str>) -> PyResult<Self> {
        let module = parse(ptx).map_err(|error| refused(format!("PTX:{error}")))?;
        let entry = entry(&module, name, "name one by entry=").map_err(refused)?.to_owned();
        Ok(Self { module, entry })
    }

    /// The parameters, in order.
    #[getter]
    fn params(&self) -> Vec<Declared> {
        let params = self.module.signature(&self.entry).map(|signature| signature.params).unwrap_or_default();
        let all = params.into_iter().map(|param| {
            let role = match param.role {
                Role::Value => "value",
                Role::Buffer { .. } => "buffer",
                Role::TensorMap { .. } => "tensor map",
            };
            (param.name, param.bytes, param.ty, role)
        });
        all.collect()
    }

    /// Threads of a block and blocks of a cluster in x, y, z, where the text requires them.
    #[getter]
    fn required(&self) -> (Option<[u32; 3]>, Option<[u32; 3]>) {
        self.module.signature(&self.entry).map_or((None, None), |signature| (signature.block, signature.cluster))
    }

    /// Runs the kernel under several schedules. What the arrays hold is copied.
    ///
    /// Every address must be that of memory which the caller keeps alive, of as many bytes as it says.
    fn run(
        &self,
        py: Python<'_>,
        shape: Shape,
        arrays: Vec<Array>,
        arguments: Vec<Argument>,
        asked: Asked,
        accepted: Vec<String>,
    ) -> PyResult<Sanitized> {
        let rules = accepted.iter().map(|words| rule(words).map_err(|what| refused(format!("allow: {what}"))));
        let rules = rules.collect::<PyResult<Vec<Allow>>>()?;
        let (grid, cluster, block, shared_bytes, dependent) = shape;
        let (schedules, seed, max_steps, tolerance) = asked;
        let mut memory = GlobalMemory::new();
        let buffers = arrays.into_iter().map(|array| place(&mut memory, array, tolerance));
        let buffers = buffers.collect::<PyResult<Vec<Buffer>>>()?;
        let params = arguments.iter().map(|argument| pass(argument, &buffers)).collect::<PyResult<_>>()?;
        let launch = Launch { grid, cluster, block, shared_bytes, params };
        let ready = Prepared { module: &self.module, entry: &self.entry, launch, memory, buffers, dependent };
        let limits = Limits { schedules, seed, max_steps };
        let mut checked = detached(py, || ready.run(&limits))?.map_err(refused)?;
        let unused = allow(&mut checked.problems, &rules);
        let unused = unused.into_iter().map(|rule| format!("no finding is at what is allowed: {}", rule.reason));
        let silent =
            self.module.prints(&self.entry).into_iter().map(|line| format!("what line {line} prints is not shown"));
        let notes = unused.chain(silent).collect();
        let (schedules, steps, seconds) = (checked.schedules, checked.steps, checked.seconds);
        let subject = Subject { path: "PTX", entry: &self.entry, schedules, steps, seconds };
        let mut words = Vec::new();
        text(&checked.problems, &subject, &mut words)?;
        words.extend(verdict(&checked.problems, &subject).into_bytes());
        let left = ready.buffers.iter().map(|buffer| buffer.place.elements(&checked.left));
        let left = left.map(|bytes| PyBytes::new(py, &bytes).unbind()).collect();
        let json = as_json(&checked.problems, &subject).to_string();
        Ok((json, String::from_utf8_lossy(&words).trim_start().to_owned(), left, notes))
    }
}

/// Copies an array of the caller's into the simulator's memory.
fn place(memory: &mut GlobalMemory, array: Array, tolerance: Option<f64>) -> PyResult<Buffer> {
    let (name, address, bytes, element, shape, align, compared) = array;
    let Some(element) = Element::named(&element) else {
        return Err(refused(format!("`{name}`: `{element}` is no element type")));
    };
    let data = match bytes {
        0 => Vec::new(),
        // SAFETY: the Python half keeps the array alive for the call, and it is as large as it says.
        _ => unsafe { slice::from_raw_parts(address as *const u8, bytes) }.to_vec(),
    };
    let place = Placed::dense(memory, data, element, shape, align);
    let after = if compared { After::Equal } else { After::Any };
    Ok(Buffer { name, place, after, tolerance })
}

/// The value of a parameter.
fn pass(argument: &Argument, buffers: &[Buffer]) -> PyResult<Param> {
    let of = |number: usize| buffers.get(number).ok_or_else(|| refused(format!("there is no array {number}")));
    Ok(match argument {
        Argument::Value(bytes) => Param::Bytes(bytes.to_vec()),
        Argument::Buffer(number) => Param::Buffer(of(*number)?.place.id),
        Argument::Map((number, dims, strides, boxed, element_strides, corners, swizzle, fill_nan)) => {
            let buffer = of(*number)?;
            let map = TensorMap {
                buffer: buffer.name.clone(),
                offset: 0,
                element: None,
                dims: dims.clone(),
                strides: strides.clone(),
                boxed: boxed.clone(),
                element_strides: element_strides.clone(),
                swizzle: *swizzle,
                im2col: corners.clone().map(|(lower, upper)| Corners { lower, upper }),
                fill_nan: *fill_nan,
            };
            let map = map.of(&buffer.place).map_err(|what| refused(format!("`{}`: {what}", buffer.name)))?;
            Param::TensorMap(map)
        }
    })
}
