//! The parameters of a launch.

use std::collections::BTreeMap;

use bsr_simulator::{Param as Passed, Parameter};
use bsr_trial::sanitize::{Element, Placed};

use super::super::exit::Failure;
use super::launch::{Number, Param};

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
        (None, None, Some(map)) => map.of(buffer(&map.buffer)?).map(Passed::TensorMap),
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
