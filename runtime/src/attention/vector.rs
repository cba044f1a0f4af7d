//! What a score reads beside the product: numbers, and vectors by query, by key or by head.

use std::marker::PhantomData;

use bsr_codegen::epilogue::{Input, InputKind, Program};
use bsr_codegen::{Dtype, KernelSpec, Plan};
use half::{bf16, f16};

use super::{AttentionError, ScoreInputs, Shape, Sharing};
use crate::Element;
use crate::epilogue::Numbers;
use crate::gpu::{Device, DevicePtr, DeviceVector, Plain};

/// Elements in a row of an example by query or key that are the same: a number without a common divisor with those of a warp's
/// queries, of a block and of a step.
const RUN: usize = 37;

/// A vector of a score on the host.
///
/// A `Rows` vector has an element for each query, a `Cols` vector one for each key, and a `Heads` vector one for each head. The
/// first two are shared by all heads of all problems, and the last one by all problems, unless [`HostVector::shared`] says
/// otherwise: then the elements of one head (or problem) follow those of the one before it.
///
/// ```
/// use bsr_runtime::attention::{HostVector, Sharing};
///
/// // Documents of two problems of three keys each.
/// let documents = HostVector::from(vec![0.0_f32, 0.0, 1.0, 0.0, 1.0, 1.0]).shared(Sharing::ByProblem);
/// assert_eq!(documents.len(), 6);
/// ```
#[derive(Clone, Debug)]
pub struct HostVector {
    values: Numbers,
    sharing: Option<Sharing>,
}

impl<V: Into<Numbers>> From<V> for HostVector {
    fn from(values: V) -> Self {
        Self { values: values.into(), sharing: None }
    }
}

impl HostVector {
    /// The same with elements of its own for each head, for each problem, or for both.
    #[must_use]
    pub fn shared(self, sharing: Sharing) -> Self {
        Self { sharing: Some(sharing), ..self }
    }

    /// Vectors that the score of `spec` can do something with, whatever they are for: runs of the numbers from 1 to 4 by query
    /// and key, which are documents as well as biases, and powers of 1/2 by head.
    pub fn examples(spec: &KernelSpec, shape: &Shape) -> Vec<Self> {
        Self::of_score(spec, shape, &|kind, [at, ..]| match kind {
            InputKind::Rows(_) | InputKind::Cols(_) => of_run(at),
            _ => of_head(at),
        })
    }

    /// Vectors for a check, with elements of their own for each head of each problem. With an odd `number` they are runs as in
    /// [`HostVector::examples`]. With an even one neighbouring elements, and those of neighbouring heads and vectors, differ: a
    /// query and a key have the same in one of seven pairs, and one query in eleven has what no key has.
    #[doc(hidden)]
    pub fn varied(spec: &KernelSpec, shape: &Shape, number: usize) -> Vec<Self> {
        let parts = Sharing::ByBoth.patterns(shape.batch, shape.heads);
        let many = Shape { queries: parts * shape.queries, keys: parts * shape.keys, heads: parts, ..*shape };
        let mixed = |at: usize, part: usize, vector: usize| {
            0.5 + 0.5 * ((3 * at + 2 * (at / 8) + 4 * part + vector) % 7) as f32
        };
        let vectors = Self::of_score(spec, &many, &|kind, [at, vector]| match kind {
            InputKind::Rows(_) | InputKind::Cols(_) => {
                let len = part(kind, shape);
                match (number % 2, at % len, at / len) {
                    (1, at, part) => of_run(at + RUN * part),
                    (_, at, _) if matches!(kind, InputKind::Rows(_)) && at % 11 == 5 => 4.5,
                    (_, at, part) => mixed(at, part, vector),
                }
            }
            // The first one hardly tells far keys from near ones, where it is a slope.
            _ => of_head(5 + 3 * at + vector),
        });
        vectors.into_iter().map(|vector| vector.shared(Sharing::ByBoth)).collect()
    }

    /// The vectors of a score: `value` is asked for each element of each, by its place and the vector's among those of its kind.
    fn of_score(spec: &KernelSpec, shape: &Shape, value: &dyn Fn(InputKind, [usize; 2]) -> f32) -> Vec<Self> {
        let inputs = spec.score.map_or(&[][..], |score| score.program().inputs());
        let vectors = inputs.iter().enumerate().filter(|(_, input)| input.kind.is_vector());
        let of = |(at, input): (usize, &Input)| {
            let same = |other: &&Input| std::mem::discriminant(&other.kind) == std::mem::discriminant(&input.kind);
            let vector = inputs[..at].iter().filter(same).count();
            let len = match input.kind {
                InputKind::Heads(_) => shape.heads,
                kind => part(kind, shape),
            };
            let values = (0..len).map(|at| value(input.kind, [at, vector]));
            match input.kind.dtype() {
                Dtype::F16 => values.map(f16::from_f32).collect::<Vec<f16>>().into(),
                Dtype::BF16 => values.map(bf16::from_f32).collect::<Vec<bf16>>().into(),
                _ => values.collect::<Vec<f32>>().into(),
            }
        };
        vectors.map(of).collect()
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.values.to_bytes()
    }

    pub(super) fn extent(&self) -> Extent {
        Extent { dtype: self.values.dtype(), len: self.len(), sharing: self.sharing }
    }

    /// The element for a query and a key of a head of a problem.
    pub(super) fn element(&self, kind: InputKind, shape: &Shape, [batch, head, query, key]: [usize; 4]) -> f64 {
        self.values.get(self.place(kind, shape, [batch, head, query, key]))
    }

    /// Where that element is.
    pub(super) fn place(&self, kind: InputKind, shape: &Shape, [batch, head, query, key]: [usize; 4]) -> usize {
        let [of_head, of_problem] = strides(kind, self.sharing, shape);
        let within = match kind {
            InputKind::Rows(_) => query,
            InputKind::Cols(_) => key,
            _ => 0,
        };
        batch * of_problem + head * of_head + within
    }
}

/// A vector of a score in device memory; see [`HostVector`].
#[derive(Clone, Copy, Debug)]
pub struct ScoreVector<'v> {
    ptr: DevicePtr,
    extent: Extent,
    memory: PhantomData<&'v ()>,
}

impl<'v, T: Element + Plain> From<&'v DeviceVector<T>> for ScoreVector<'v> {
    fn from(vector: &'v DeviceVector<T>) -> Self {
        let extent = Extent { dtype: T::DTYPE, len: vector.len(), sharing: None };
        Self { ptr: vector.ptr(), extent, memory: PhantomData }
    }
}

impl ScoreVector<'_> {
    /// The same with elements of its own for each head, for each problem, or for both.
    #[must_use]
    pub fn shared(self, sharing: Sharing) -> Self {
        Self { extent: Extent { sharing: Some(sharing), ..self.extent }, ..self }
    }

    pub(super) fn ptr(&self) -> DevicePtr {
        self.ptr
    }

    pub(super) fn extent(&self) -> Extent {
        self.extent
    }
}

/// Vectors of a score, copied to a device.
#[derive(Debug)]
pub struct UploadedVectors(Vec<(Uploaded, Option<Sharing>)>);

#[derive(Debug)]
enum Uploaded {
    F64(DeviceVector<f64>),
    F32(DeviceVector<f32>),
    F16(DeviceVector<f16>),
    BF16(DeviceVector<bf16>),
}

impl UploadedVectors {
    /// Copies vectors to a device.
    ///
    /// # Errors
    /// [`AttentionError::Gpu`].
    pub fn new(device: &Device, vectors: &[HostVector]) -> Result<Self, AttentionError> {
        let upload = |vector: &HostVector| {
            let uploaded = match &vector.values {
                Numbers::F64(values) => Uploaded::F64(DeviceVector::upload(device, values)?),
                Numbers::F32(values) => Uploaded::F32(DeviceVector::upload(device, values)?),
                Numbers::F16(values) => Uploaded::F16(DeviceVector::upload(device, values)?),
                Numbers::BF16(values) => Uploaded::BF16(DeviceVector::upload(device, values)?),
            };
            Ok((uploaded, vector.sharing))
        };
        vectors.iter().map(upload).collect::<Result<_, AttentionError>>().map(Self)
    }

    /// What a launch is given, in the order in which they were copied.
    pub fn each(&self) -> Vec<ScoreVector<'_>> {
        let view = |(uploaded, sharing): &'_ (Uploaded, Option<Sharing>)| {
            let view = match uploaded {
                Uploaded::F64(vector) => ScoreVector::from(vector),
                Uploaded::F32(vector) => ScoreVector::from(vector),
                Uploaded::F16(vector) => ScoreVector::from(vector),
                Uploaded::BF16(vector) => ScoreVector::from(vector),
            };
            ScoreVector { extent: Extent { sharing: *sharing, ..view.extent }, ptr: view.ptr, memory: PhantomData }
        };
        self.0.iter().map(view).collect()
    }
}

/// An element by query or by key: documents as well as biases.
fn of_run(at: usize) -> f32 {
    (1 + at / RUN % 4) as f32
}

/// An element by head.
fn of_head(head: usize) -> f32 {
    0.5_f32.powi(1 + head as i32 % 8)
}

/// What must fit of a vector.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent {
    dtype: Dtype,
    len: usize,
    sharing: Option<Sharing>,
}

/// The parameters of a plan's score.
pub(super) fn inputs(plan: &Plan) -> &'static [Input] {
    plan.spec().score.map_or(&[], |score| score.program().inputs())
}

/// What the parameters of a score are for a query and a key of a head of a problem.
pub(super) fn values(
    program: &Program,
    given: &ScoreInputs<'_>,
    shape: &Shape,
    place_of: [usize; 4],
    into: &mut [f64],
) {
    let (mut scalars, mut vectors) = (given.scalars.iter(), given.vectors.iter());
    for (input, value) in program.inputs().iter().zip(into) {
        let found = match input.kind {
            InputKind::Scalar => scalars.next().copied().map(f64::from),
            kind => vectors.next().map(|vector| vector.element(kind, shape, place_of)),
        };
        *value = found.unwrap_or(f64::NAN);
    }
}

/// Elements from one head to the next, and from one problem to the next.
fn strides(kind: InputKind, sharing: Option<Sharing>, shape: &Shape) -> [usize; 2] {
    let part = part(kind, shape);
    match sharing.unwrap_or(natural(kind)) {
        Sharing::All => [0, 0],
        Sharing::ByHead => [part, 0],
        Sharing::ByProblem => [0, part],
        Sharing::ByBoth => [part, part * shape.heads],
    }
}

/// How a vector is shared of which nothing is said.
fn natural(kind: InputKind) -> Sharing {
    if matches!(kind, InputKind::Heads(_)) { Sharing::ByHead } else { Sharing::All }
}

/// Elements of one head of one problem.
fn part(kind: InputKind, shape: &Shape) -> usize {
    match kind {
        InputKind::Rows(_) => shape.queries,
        InputKind::Cols(_) => shape.keys,
        _ => 1,
    }
}

/// Every vector with its strides, as a launch is told them: that of the head in the lower 32 bits, that of the problem in the
/// upper ones.
///
/// # Errors
/// [`AttentionError::Vectors`], [`AttentionError::Vector`] and [`AttentionError::Size`]: a vector that is missing, of another
/// type, of another length, or too long.
pub(super) fn packed_strides<A>(
    plan: &Plan,
    shape: &Shape,
    given: impl ExactSizeIterator<Item = (A, Extent)>,
) -> Result<Vec<(A, u64)>, AttentionError> {
    let vectors: Vec<&Input> = inputs(plan).iter().filter(|input| input.kind.is_vector()).collect();
    if vectors.len() != given.len() {
        let names: Vec<&str> = vectors.iter().map(|input| input.name.as_str()).collect();
        let (expected, found) = (vectors.len(), given.len());
        return Err(AttentionError::Vectors { expected, found, names: names.join(", ") });
    }
    let packed = |(input, (at, extent))| Ok((at, packed_stride(input, shape, extent)?));
    vectors.into_iter().zip(given).map(packed).collect()
}

fn packed_stride(input: &Input, shape: &Shape, extent: Extent) -> Result<u64, AttentionError> {
    let Extent { dtype, len, sharing } = extent;
    let (name, kind) = (input.name.clone(), input.kind);
    if dtype != kind.dtype() {
        return Err(AttentionError::Vector { name, found: dtype, expected: kind.words() });
    }
    let sharing = sharing.unwrap_or(natural(kind));
    let (part, parts) = (part(kind, shape), sharing.patterns(shape.batch, shape.heads));
    if len != part * parts {
        let what = match kind {
            InputKind::Rows(_) => "queries",
            InputKind::Cols(_) => "keys",
            _ => "for each part",
        };
        return Err(AttentionError::size(
            format!("`{name}` has {len} elements"),
            format!(
                "{part} {what} x {parts} parts ({sharing:?}, of {} problems and {} heads) = {}",
                shape.batch,
                shape.heads,
                part * parts
            ),
            "as many elements, or another `shared(..)`",
        ));
    }
    let [of_head, of_problem] = strides(kind, Some(sharing), shape).map(|stride| stride as u64);
    if of_problem > u64::from(u32::MAX) {
        return Err(AttentionError::size(
            format!("`{name}` is too long: {len} elements"),
            format!("{of_problem} elements from one problem to the next; a launch takes 32 bits"),
            "several launches",
        ));
    }
    Ok(of_head | of_problem << 32)
}
