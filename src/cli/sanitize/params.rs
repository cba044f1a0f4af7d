//! The parameters of a launch.

use std::collections::BTreeMap;

use bsr_simulator::{Param as Passed, Parameter, Swizzle, TensorMapDesc};

use super::super::exit::Failure;
use super::element::Element;
use super::launch::{Number, Param, TensorMap};
use super::memory::Placed;

/// The values of a kernel's parameters.
///
/// # Errors
/// Bad input: a parameter that is not described, or one of the wrong kind.
pub(super) fn pass(
    declared: &[Parameter],
    given: &[Param],
    placed: &BTreeMap<String, Placed>,
) -> Result<Vec<Passed>, Failure> {
    if declared.len() != given.len() {
        let names: Vec<&str> = declared.iter().map(|p| p.name.as_str()).collect();
        return Err(Failure::bad_input(format!(
            "the kernel takes {} parameters, and the launch has {}: one [[params]] for each of {}",
            declared.len(),
            given.len(),
            names.join(", ")
        )));
    }
    let all = declared.iter().zip(given).enumerate();
    all.map(|(number, (declared, given))| {
        one(declared, given, placed)
            .map_err(|what| Failure::bad_input(format!("parameter {number} `{}`: {what}", declared.name)))
    })
    .collect()
}

fn one(declared: &Parameter, given: &Param, placed: &BTreeMap<String, Placed>) -> Result<Passed, String> {
    let buffer = |name: &String| placed.get(name).ok_or_else(|| format!("there is no buffer `{name}`"));
    match (&given.buffer, &given.value, &given.tensor_map) {
        (Some(name), None, None) => {
            let id = buffer(name)?.id;
            Ok(if given.offset == 0 { Passed::Buffer(id) } else { Passed::BufferAt(id, given.offset) })
        }
        (None, Some(value), None) => number(declared, given.element, value),
        (None, None, Some(map)) => tensor_map(map, buffer(&map.buffer)?).map(Passed::TensorMap),
        _ => Err("one of `buffer`, `value` and `tensor_map` says what is passed".into()),
    }
}

/// A value in the bytes that the parameter has.
fn number(declared: &Parameter, element: Option<Element>, value: &Number) -> Result<Passed, String> {
    let fraction = matches!(value, Number::One(_));
    let natural = match (declared.ty.as_str(), declared.bytes, fraction) {
        ("f32", ..) | (_, 4, true) => Element::F32,
        ("f64", ..) | (_, 8, true) => Element::F64,
        ("f16", ..) => Element::F16,
        (_, 1, _) => Element::I8,
        (_, 2, _) => Element::I16,
        (_, 8, _) => Element::I64,
        _ => Element::I32,
    };
    let element = element.unwrap_or(natural);
    let mut bytes = Vec::new();
    match value {
        // All 64 bits of a number count.
        Number::Whole(v) if !element.is_float() => bytes.extend(&v.to_le_bytes()[..element.bytes()]),
        Number::Whole(v) => element.put(*v as f64, &mut bytes),
        Number::One(v) => element.put(*v, &mut bytes),
        Number::Many(list) => list.iter().for_each(|v| element.put(*v, &mut bytes)),
    }
    if bytes.len() != declared.bytes as usize {
        return Err(format!(
            "it has {} bytes, and the value {}; `type` says what the numbers are",
            declared.bytes,
            bytes.len()
        ));
    }
    Ok(Passed::Bytes(bytes))
}

fn tensor_map(map: &TensorMap, of: &Placed) -> Result<TensorMapDesc, String> {
    let dims = map.dims.clone().unwrap_or_else(|| of.shape.iter().rev().copied().collect());
    let strides = map.strides.clone().unwrap_or_else(|| {
        // The buffer's own pitch, then whole planes.
        let mut stride = if map.dims.is_none() { of.rows.1 } else { dims[0] * of.element.bytes() as u64 };
        let outer = dims.iter().skip(1);
        let mut all = Vec::new();
        for extent in outer {
            all.push(stride);
            stride *= extent;
        }
        all
    });
    let Some(swizzle) = Swizzle::from_span(map.swizzle) else {
        return Err(format!("a swizzle spans 0, 32, 64 or 128 bytes, not {}", map.swizzle));
    };
    Ok(TensorMapDesc {
        buffer: of.id,
        offset: map.offset,
        element: of.element.of_map(),
        element_strides: map.element_strides.clone().unwrap_or_else(|| vec![1; dims.len()]),
        dims,
        strides,
        box_dims: map.boxed.clone(),
        swizzle,
        fill_nan: map.fill_nan,
    })
}
