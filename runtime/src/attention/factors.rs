//! The factors of Q, K and V of 8 bits: what their elements are multiplied by.

use bsr_codegen::{KernelSpec, Refusal, Scale};

use super::{AttentionError, Shape};
use crate::gpu::{Device, DevicePtr, DeviceVector};

/// The factors of Q, K and V, of a kernel with `scale = tensor`: `O = v * softmax(scale * q * k * Q K^T) V`.
///
/// Each has one element for its tensor, one for each head of K, or one for each head of K of each problem, the heads of a problem
/// side by side; all three have as many. Heads of Q that share a head of K share its factor, too.
///
/// ```
/// use bsr_runtime::attention::Factors;
///
/// let of_two_heads = Factors::new(vec![0.5, 0.25], vec![1.0, 2.0], vec![0.1, 0.2])?;
/// assert_eq!(of_two_heads.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Factors {
    each: [Vec<f32>; 3],
}

impl Factors {
    /// Those of Q, of K and of V.
    ///
    /// # Errors
    /// Factors that are not positive and finite, and different numbers of them.
    pub fn new(q: Vec<f32>, k: Vec<f32>, v: Vec<f32>) -> Result<Self, Refusal> {
        if q.len() != k.len() || q.len() != v.len() {
            let fact = format!("{} factors of Q, {} of K and {} of V", q.len(), k.len(), v.len());
            return Err(Refusal::new(fact).why("a kernel finds all three at one place").help("as many of each"));
        }
        for (name, values) in [("Q", &q), ("K", &k), ("V", &v)] {
            if let Some(at) = values.iter().position(|value| !(*value > 0.0 && value.is_finite())) {
                return Err(Refusal::new(format!("factor {at} of {name} is {}", values[at]))
                    .why(
                        "the greatest score is that of the greatest product only where factors are positive and finite",
                    )
                    .help("the largest magnitude of the tensor or head divided by 448, or 1 of zeros"));
            }
        }
        Ok(Self { each: [q, k, v] })
    }

    /// How many there are of each.
    pub fn len(&self) -> usize {
        self.each[0].len()
    }

    /// Whether there are none.
    #[doc(hidden)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// By what products of the head of K at a place are multiplied.
    pub(super) fn products(&self, at: usize) -> f32 {
        self.each[0][at] * self.each[1][at]
    }

    /// By what V of the head at a place is multiplied.
    pub(super) fn values(&self, at: usize) -> f32 {
        self.each[2][at]
    }

    /// Those of Q, of K and of V.
    pub(super) fn each(&self) -> &[Vec<f32>; 3] {
        &self.each
    }

    /// The place of the factors of a head of K of a problem.
    pub(super) fn place(&self, shape: &Shape, [problem, key_head]: [usize; 2]) -> usize {
        let [head, batch] = strides(shape, self.len()).unwrap_or_default();
        key_head * head + problem * batch
    }
}

/// Factors of Q, K and V in device memory.
#[derive(Debug)]
pub struct DeviceFactors {
    each: [DeviceVector<f32>; 3],
}

impl DeviceFactors {
    /// Copies factors to a device.
    ///
    /// # Errors
    /// [`AttentionError::Gpu`].
    pub fn upload(device: &Device, factors: &Factors) -> Result<Self, AttentionError> {
        let [q, k, v] = factors.each().each_ref().map(|values| DeviceVector::upload(device, values));
        Ok(Self { each: [q?, k?, v?] })
    }

    /// Those of Q, of K and of V that are in device memory already. Their elements must be positive and finite: a launch does
    /// not read them.
    ///
    /// # Errors
    /// Different numbers of them.
    pub fn new(q: DeviceVector<f32>, k: DeviceVector<f32>, v: DeviceVector<f32>) -> Result<Self, Refusal> {
        if q.len() != k.len() || q.len() != v.len() {
            let fact = format!("{} factors of Q, {} of K and {} of V", q.len(), k.len(), v.len());
            return Err(Refusal::new(fact).why("a kernel finds all three at one place").help("as many of each"));
        }
        Ok(Self { each: [q, k, v] })
    }

    pub(super) fn given(&self) -> Given<DevicePtr> {
        (self.each.each_ref().map(DeviceVector::ptr), self.each[0].len())
    }
}

/// Where the factors of Q, K and V are, and how many of each.
pub(super) type Given<A> = ([A; 3], usize);

/// Elements from one head of K to the next and from one problem to the next, of so many factors; none that a shape does not have.
fn strides(shape: &Shape, len: usize) -> Option<[usize; 2]> {
    match len {
        1 => Some([0, 0]),
        len if len == shape.key_heads => Some([1, 0]),
        len if len == shape.batch * shape.key_heads => Some([1, shape.key_heads]),
        _ => None,
    }
}

/// The strides of the factors that a kernel of `spec` is given; zeros for one that has none.
///
/// # Errors
/// [`AttentionError::Size`].
pub(super) fn checked(spec: &KernelSpec, shape: &Shape, len: Option<usize>) -> Result<[u32; 2], AttentionError> {
    match (spec.scale, len) {
        (Scale::Unscaled, None) => Ok([0, 0]),
        (Scale::Unscaled, Some(len)) => Err(AttentionError::size(
            format!("{len} factors each of Q, K and V are given"),
            "the kernel, with scale = none, takes none",
            "a kernel with scale = tensor, or no factors",
        )),
        (_, None) => Err(AttentionError::size(
            "no factors of Q, K and V are given",
            format!("the kernel has scale = {}", spec.scale),
            "`factors` of the inputs, or a kernel with scale = none",
        )),
        (_, Some(len)) => strides(shape, len).map(|strides| strides.map(|stride| stride as u32)).ok_or_else(|| {
            let (batch, heads) = (shape.batch, shape.key_heads);
            AttentionError::size(
                format!("{len} factors each of Q, K and V are given"),
                format!(
                    "one of a tensor, {heads} of its heads of K, or {batch} x {heads} = {} of each problem's",
                    batch * heads
                ),
                "as many",
            )
        }),
    }
}
