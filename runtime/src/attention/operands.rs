//! Whether the operands of an attention fit a kernel and each other, on any machine.

use bsr_codegen::{AttentionTiles, Dtype, KernelSpec, Plan, TensorStrides};

use super::vector::{self, Extent, packed_strides};
use super::{AttentionError, PageShape, Shape, factors};
use crate::operation::Attention;

/// A tensor in the memory of a machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placed<A> {
    pub(super) at: A,
    pub(super) sizes: [usize; 4],
    pub(super) strides: TensorStrides,
}

/// An operand that an attention may lack, and its elements.
type Given<A> = Option<(A, usize)>;

/// Sinks, the page table and its sizes, and factors, of a kernel that has them.
pub(super) type Further<'p, A> = (Given<A>, Option<(A, &'p PageShape)>, Option<factors::Given<A>>);

/// The operands of an attention of a shape: Q, K and V of one element type, O, an LSE of so many elements, the scale and the
/// numbers of the score, its vectors, and as many sinks. K and V may be in the pages of a page table.
///
/// # Errors
/// What does not fit.
pub(super) fn checked<'a, A: Copy>(
    plan: &Plan,
    shape: &Shape,
    (tensors, dtype): ([Placed<A>; 3], Dtype),
    (o, lse, out): (Placed<A>, Given<A>, Dtype),
    (scale, scalars): (f32, &'a [f32]),
    vectors: impl ExactSizeIterator<Item = (A, Extent)>,
    (sinks, pages, factors): Further<'_, A>,
) -> Result<Attention<'a, A>, AttentionError> {
    let sizes = tensors.map(|tensor| tensor.sizes);
    let found = shape_of(plan, rows_of(sizes, pages.map(|(_, pages)| pages), dtype)?, dtype)?;
    match pages {
        Some((_, pages)) => pages.check(plan, &found)?,
        None => check_without_pages(plan.spec().page)?,
    }
    if out != plan.spec().out {
        return Err(AttentionError::Dtype { operand: "O", found: out, expected: plan.spec().out });
    }
    check_numbers(plan, scale, scalars)?;
    let vectors = packed_strides(plan, &found, vectors)?;
    check_sinks(plan, &found, sinks.map(|(_, len)| len))?;
    let of_factors = factors::checked(plan.spec(), &found, factors.map(|(_, count)| count))?;
    if found != *shape {
        return Err(AttentionError::size(
            "the pattern was made for tensors of other sizes",
            format!("{shape:?}, not {found:?}"),
            "`Launcher::pattern` with this shape",
        ));
    }
    if o.sizes != shape.of_output() {
        return Err(AttentionError::size(
            format!("O is {:?}", o.sizes),
            format!("{:?}: problems, heads and queries of Q, columns of V", shape.of_output()),
            "an O of these sizes",
        ));
    }
    if let Some((_, len)) = lse.filter(|(_, len)| *len != shape.rows()) {
        return Err(AttentionError::size(
            format!("LSE has {len} elements"),
            format!("problems x heads x queries = {}", shape.rows()),
            "one for each query of each head",
        ));
    }
    let [q, k, v] = tensors;
    let problem =
        shape.problem([q, k, v, o].map(|tensor| tensor.strides), pages.map_or(0, |(_, pages)| pages.pages), of_factors);
    // Without keys nothing is read: any valid address serves.
    let [k, v] = if shape.keys == 0 { [q, q] } else { [k, v] }.map(|tensor| tensor.at);
    let [lse, sinks] = [lse, sinks].map(|vector| vector.map(|(at, _)| at));
    let pages = pages.map(|(at, _)| at);
    let factors = factors.map(|(each, _)| each);
    Ok(Attention { q: q.at, k, v, o: o.at, lse, scale, sinks, pages, factors, list: None, scalars, vectors, problem })
}

/// The sizes of Q, and those of K and V with the most rows of each problem, where they are in pages.
///
/// # Errors
/// [`AttentionError::Size`] for tensors that are not these pages.
pub(super) fn rows_of(
    [q, k, v]: [[usize; 4]; 3],
    pages: Option<&PageShape>,
    dtype: Dtype,
) -> Result<[[usize; 4]; 3], AttentionError> {
    let Some(pages) = pages else { return Ok([q, k, v]) };
    // Of 8 bits the rows of V are columns.
    let turned = |[pages, heads, rows, columns]: [usize; 4]| [pages, heads, columns, rows];
    let v = if dtype.is_fp8() { turned(v) } else { v };
    if let Some(found) = [k, v].into_iter().find(|found| (found[0], found[2]) != (pages.pages, pages.page)) {
        return Err(AttentionError::size(
            format!("K or V is {found:?}"),
            format!("{} pages x heads x {} keys of a page x columns", pages.pages, pages.page),
            "tensors of these pages, or another page table",
        ));
    }
    let rows = |[_, heads, _, columns]: [usize; 4]| [q[0], heads, pages.keys(), columns];
    Ok([q, rows(k), if dtype.is_fp8() { turned(rows(v)) } else { rows(v) }])
}

/// Whether a kernel reads tensors, not pages.
///
/// # Errors
/// [`AttentionError::Size`].
pub(super) fn check_without_pages(page: Option<u32>) -> Result<(), AttentionError> {
    match page {
        None => Ok(()),
        Some(page) => Err(AttentionError::size(
            format!("the kernel reads K and V in pages of {page} keys"),
            "its work is listed by a page table and the keys of each problem, not by a mask",
            "`Launcher::paged`, or a kernel without `page`",
        )),
    }
}

/// Whether there is a sink for each head of a kernel that has sinks, and none for another.
fn check_sinks(plan: &Plan, shape: &Shape, len: Option<usize>) -> Result<(), AttentionError> {
    let wanted = plan.spec().sinks.is_on().then_some(shape.heads);
    if len == wanted {
        return Ok(());
    }
    let words = |count: Option<usize>| count.map_or("no sinks".to_owned(), |count| format!("sinks of {count} heads"));
    Err(AttentionError::size(
        format!("{} are given", words(len)),
        format!("the kernel, with sinks = {}, takes {}", plan.spec().sinks, words(wanted)),
        match wanted {
            Some(_) => "one for each head of Q, or a kernel with sinks = off",
            None => "a kernel with sinks = on",
        },
    ))
}

/// Makes sure that a plan is of an attention.
///
/// # Errors
/// [`AttentionError::Operation`].
pub(super) fn check_operation(plan: &Plan) -> Result<(), AttentionError> {
    tiles(plan).map(drop)
}

/// How the kernel of a plan divides its work.
///
/// # Errors
/// [`AttentionError::Operation`] for another operation.
pub(super) fn tiles(plan: &Plan) -> Result<AttentionTiles, AttentionError> {
    plan.attention_tiles().ok_or(AttentionError::Operation(plan.spec().op))
}

/// The shape of the tensors Q, K and V, whose sizes are problems, heads, rows and columns.
///
/// # Errors
/// [`AttentionError::Size`] and [`AttentionError::Dtype`] where they do not belong together or to the kernel.
pub(super) fn shape_of(plan: &Plan, [q, k, v]: [[usize; 4]; 3], dtype: Dtype) -> Result<Shape, AttentionError> {
    let shape = shape_of_sizes(plan.spec(), [q, k, v], dtype)?;
    shape.check_tiles(&tiles(plan)?).map(|()| shape)
}

/// The same, whatever tiles the kernel has.
///
/// # Errors
/// As [`shape_of`].
pub(super) fn shape_of_sizes(
    spec: &KernelSpec,
    [q, k, v]: [[usize; 4]; 3],
    dtype: Dtype,
) -> Result<Shape, AttentionError> {
    if dtype != spec.a {
        return Err(AttentionError::Dtype { operand: "Q", found: dtype, expected: spec.a });
    }
    let v = if spec.a.is_fp8() { of_columns(k, v)? } else { v };
    if k[..3] != v[..3] || k[0] != q[0] || k[3] != q[3] {
        return Err(AttentionError::size(
            "Q, K and V do not belong together",
            format!("Q is {q:?}, K is {k:?}, V is {v:?}: problems, heads, rows, columns"),
            "K and V of the same problems, heads and rows, with the problems of Q and K of its columns",
        ));
    }
    let depth = spec.score_depth() as usize;
    if spec.d.is_some() && q[3] != depth {
        return Err(AttentionError::size(
            format!("Q and K have {} columns, and the kernel was compiled for {depth}", q[3]),
            "the columns of Q and K are d of the spec, those of V bn",
            format!("a kernel with d = {}", q[3]),
        ));
    }
    if spec.d.is_none() && q[3] != v[3] {
        return Err(AttentionError::size(
            format!("Q and K have {} columns, and V has {}", q[3], v[3]),
            "a kernel without d has one head dimension, bn",
            format!("a kernel with d = {}", q[3]),
        ));
    }
    let ([batch, heads, queries, _], columns) = (q, v[3]);
    Ok(Shape { batch, heads, key_heads: k[1], queries, keys: k[2], columns })
}

/// The sizes of a V of 8 bits as if its rows were keys.
///
/// # Errors
/// [`AttentionError::Size`] for one that has not the places of K's keys.
fn of_columns(k: [usize; 4], v: [usize; 4]) -> Result<[usize; 4], AttentionError> {
    let ([_, _, keys, _], [batch, heads, columns, places]) = (k, v);
    if places != AttentionTiles::places(keys) {
        return Err(AttentionError::size(
            format!("V is {v:?}, and K {k:?}"),
            format!(
                "WGMMA reads 8-bit operands along K alone, so V is [problems, heads, columns, keys], {keys} keys in {} places",
                AttentionTiles::places(keys)
            ),
            "`Tensor::by_column` of V",
        ));
    }
    Ok([batch, heads, keys, columns])
}

/// Whether the scale is one, and there is a number for each parameter of the score.
///
/// # Errors
/// [`AttentionError::Scale`] and [`AttentionError::Scalars`].
pub(super) fn check_numbers(plan: &Plan, scale: f32, scalars: &[f32]) -> Result<(), AttentionError> {
    if !(scale > 0.0 && scale.is_finite()) {
        return Err(AttentionError::Scale(scale));
    }
    let inputs = vector::inputs(plan).iter().filter(|input| !input.kind.is_vector());
    let names: Vec<&str> = inputs.map(|input| input.name.as_str()).collect();
    if names.len() != scalars.len() {
        return Err(AttentionError::Scalars { expected: names.len(), found: scalars.len(), names: names.join(", ") });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_v_of_eight_bits_is_by_columns() {
        let spec: KernelSpec = "op = attention, bm = 64, bn = 64, bk = 64, dtype = e4m3".parse().unwrap();
        let (q, k) = ([1, 4, 100, 64], [1, 2, 70, 64]);
        let shape = |v| shape_of_sizes(&spec, [q, k, v], Dtype::E4M3);
        let found = shape([1, 2, 64, 80]).unwrap();
        assert_eq!((found.keys, found.columns), (70, 64));
        for wrong in [k, [1, 2, 64, 70], [1, 2, 64, 96]] {
            let error = shape(wrong).unwrap_err().to_string();
            assert!(error.contains("70 keys in 80 places") && error.contains("by_column"), "{error}");
        }
    }
}
