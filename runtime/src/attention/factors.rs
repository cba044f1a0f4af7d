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
///
/// A kernel with `scale = block` takes [`Factors::of_blocks`].
#[derive(Clone, Debug, PartialEq)]
pub struct Factors {
    each: [Vec<f32>; 3],
    /// They are those of blocks.
    of_blocks: bool,
}

impl Factors {
    /// Those of Q, of K and of V.
    ///
    /// # Errors
    /// Factors that are not positive and finite, and different numbers of them.
    pub fn new(q: Vec<f32>, k: Vec<f32>, v: Vec<f32>) -> Result<Self, Refusal> {
        as_many([q.len(), k.len(), v.len()])?;
        Self::checked([q, k, v], false)
    }

    /// Those of blocks of Q, of K and of V, of a kernel with `scale = block`: an element for each block of `bm` queries of each head of
    /// Q of each problem, `[problems, heads, blocks]`, and one for each block of `bk` keys of each head of K, in K and in V.
    ///
    /// V's factor is a term of an exponent: sums are exact to f32 where those of one head differ by a factor of 2^60 at most.
    ///
    /// ```
    /// use bsr_runtime::attention::Factors;
    ///
    /// // One head of 300 queries and 200 keys, in blocks of 128 x 64.
    /// let factors = Factors::of_blocks(vec![0.5, 0.25, 1.0], vec![1.0; 4], vec![0.1, 0.2, 0.1, 0.3])?;
    /// assert_eq!(factors.len(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Factors that are not positive and finite, and different numbers of those of K and of V.
    pub fn of_blocks(q: Vec<f32>, k: Vec<f32>, v: Vec<f32>) -> Result<Self, Refusal> {
        same_keys(k.len(), v.len())?;
        Self::checked([q, k, v], true)
    }

    fn checked([q, k, v]: [Vec<f32>; 3], of_blocks: bool) -> Result<Self, Refusal> {
        for (name, values) in [("Q", &q), ("K", &k), ("V", &v)] {
            if let Some(at) = values.iter().position(|value| !(*value > 0.0 && value.is_finite())) {
                return Err(Refusal::new(format!("factor {at} of {name} is {}", values[at]))
                    .why(
                        "the greatest score is that of the greatest product only where factors are positive and finite",
                    )
                    .help("the largest magnitude of the tensor, head or block divided by 448, or 1 of zeros"));
            }
        }
        Ok(Self { each: [q, k, v], of_blocks })
    }

    /// How many there are of each; of blocks, how many of K.
    pub fn len(&self) -> usize {
        self.each[1].len()
    }

    /// Whether there are none.
    #[doc(hidden)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// By what the product of a query and a key is multiplied, and V of the key.
    pub(super) fn of_pair(
        &self,
        shape: &Shape,
        (bm, bk): (usize, usize),
        [problem, head, query]: [usize; 3],
        key: usize,
    ) -> [f32; 2] {
        let key_head = shape.key_head(head);
        let [of_query, of_key] = match self.of_blocks {
            true => [
                (problem * shape.heads + head) * shape.queries.div_ceil(bm) + query / bm,
                (problem * shape.key_heads + key_head) * shape.keys.div_ceil(bk) + key / bk,
            ],
            false => {
                let [head, batch] = strides(shape, self.len()).unwrap_or_default();
                [key_head * head + problem * batch; 2]
            }
        };
        [self.each[0][of_query] * self.each[1][of_key], self.each[2][of_key]]
    }

    /// How many of each, and of what.
    pub(super) fn count(&self) -> Count {
        Count { each: self.each.each_ref().map(Vec::len), of_blocks: self.of_blocks }
    }

    /// Those of Q, of K and of V.
    pub(super) fn each(&self) -> &[Vec<f32>; 3] {
        &self.each
    }
}

/// Factors of Q, K and V in device memory.
#[derive(Debug)]
pub struct DeviceFactors {
    each: [DeviceVector<f32>; 3],
    of_blocks: bool,
}

impl DeviceFactors {
    /// Copies factors to a device.
    ///
    /// # Errors
    /// [`AttentionError::Gpu`].
    pub fn upload(device: &Device, factors: &Factors) -> Result<Self, AttentionError> {
        let [q, k, v] = factors.each().each_ref().map(|values| DeviceVector::upload(device, values));
        Ok(Self { each: [q?, k?, v?], of_blocks: factors.of_blocks })
    }

    /// Those of Q, of K and of V that are in device memory already. Their elements must be positive and finite: a launch does
    /// not read them.
    ///
    /// # Errors
    /// Different numbers of them.
    pub fn new(q: DeviceVector<f32>, k: DeviceVector<f32>, v: DeviceVector<f32>) -> Result<Self, Refusal> {
        as_many([q.len(), k.len(), v.len()])?;
        Ok(Self { each: [q, k, v], of_blocks: false })
    }

    /// Those of blocks, as [`Factors::of_blocks`], that are in device memory already.
    ///
    /// # Errors
    /// Different numbers of those of K and of V.
    pub fn of_blocks(q: DeviceVector<f32>, k: DeviceVector<f32>, v: DeviceVector<f32>) -> Result<Self, Refusal> {
        same_keys(k.len(), v.len())?;
        Ok(Self { each: [q, k, v], of_blocks: true })
    }

    pub(super) fn given(&self) -> Given<DevicePtr> {
        let count = Count { each: self.each.each_ref().map(DeviceVector::len), of_blocks: self.of_blocks };
        (self.each.each_ref().map(DeviceVector::ptr), count)
    }
}

/// How many factors of Q, of K and of V are given, and whether they are those of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Count {
    each: [usize; 3],
    of_blocks: bool,
}

/// Where the factors of Q, K and V are, and how many of each.
pub(super) type Given<A> = ([A; 3], Count);

/// Makes sure that there are as many of each tensor.
fn as_many([q, k, v]: [usize; 3]) -> Result<(), Refusal> {
    if q == k && q == v {
        return Ok(());
    }
    let fact = format!("{q} factors of Q, {k} of K and {v} of V");
    Err(Refusal::new(fact).why("a kernel finds all three at one place").help("as many of each"))
}

/// Makes sure that there are as many of K as of V.
fn same_keys(k: usize, v: usize) -> Result<(), Refusal> {
    if k == v {
        return Ok(());
    }
    let fact = format!("{k} factors of K and {v} of V");
    Err(Refusal::new(fact).why("both have the same blocks of keys").help("as many of each"))
}

/// Elements from one head of K to the next and from one problem to the next, of so many factors; none that a shape does not have.
fn strides(shape: &Shape, len: usize) -> Option<[usize; 2]> {
    match len {
        1 => Some([0, 0]),
        len if len == shape.key_heads => Some([1, 0]),
        len if len == shape.batch * shape.key_heads => Some([1, shape.key_heads]),
        _ => None,
    }
}

/// The strides of the factors that a kernel of `spec` is given, from one head of K to the next and from one problem to the next; zeros
/// for one that has none.
///
/// # Errors
/// [`AttentionError::Size`].
pub(super) fn checked(spec: &KernelSpec, shape: &Shape, count: Option<Count>) -> Result<[u32; 2], AttentionError> {
    match (spec.scale, count) {
        (Scale::Unscaled, None) => Ok([0, 0]),
        (Scale::Unscaled, Some(Count { each: [_, len, _], .. })) => Err(AttentionError::size(
            format!("{len} factors of K are given"),
            "the kernel, with scale = none, takes none",
            "a kernel with scale = tensor or block, or no factors",
        )),
        (_, None) => Err(AttentionError::size(
            "no factors of Q, K and V are given",
            format!("the kernel has scale = {}", spec.scale),
            "`factors` of the inputs, or a kernel with scale = none",
        )),
        (Scale::Block, Some(Count { each, of_blocks: true })) => of_blocks(spec, shape, each),
        (_, Some(Count { each: [_, len, _], of_blocks: false })) if spec.scale != Scale::Block => {
            strides(shape, len).map(|strides| strides.map(|stride| stride as u32)).ok_or_else(|| {
                let (batch, heads) = (shape.batch, shape.key_heads);
                AttentionError::size(
                    format!("{len} factors each of Q, K and V are given"),
                    format!(
                        "one of a tensor, {heads} of its heads of K, or {batch} x {heads} = {} of each problem's",
                        batch * heads
                    ),
                    "as many",
                )
            })
        }
        (_, Some(Count { of_blocks, .. })) => {
            let given = if of_blocks { "blocks" } else { "a tensor or its heads" };
            Err(AttentionError::size(
                format!("the factors are those of {given}"),
                format!("the kernel has scale = {}", spec.scale),
                match of_blocks {
                    true => "a kernel with scale = block, or `Factors::new`",
                    false => "a kernel with scale = tensor, or `Factors::of_blocks`",
                },
            ))
        }
    }
}

/// The strides of factors of blocks.
///
/// # Errors
/// [`AttentionError::Size`] for other numbers of them than there are blocks.
fn of_blocks(spec: &KernelSpec, shape: &Shape, found: [usize; 3]) -> Result<[u32; 2], AttentionError> {
    let of = |heads: usize, rows: usize, block: u32| (shape.batch * heads, rows.div_ceil(block as usize));
    let (of_queries, of_keys) = (of(shape.heads, shape.queries, spec.bm), of(shape.key_heads, shape.keys, spec.bk));
    for (name, found, (heads, blocks)) in
        [("Q", found[0], of_queries), ("K", found[1], of_keys), ("V", found[2], of_keys)]
    {
        if found != heads * blocks {
            return Err(AttentionError::size(
                format!("{found} factors of {name} are given"),
                format!(
                    "{heads} heads of all problems x {blocks} blocks of {} = {}",
                    if name == "Q" { format!("{} queries", spec.bm) } else { format!("{} keys", spec.bk) },
                    heads * blocks
                ),
                "one of each block of each head",
            ));
        }
    }
    Ok([of_keys.1 as u32, (shape.key_heads * of_keys.1) as u32])
}
