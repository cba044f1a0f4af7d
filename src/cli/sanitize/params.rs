//! The parameters of a launch, and the fields of structures.

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
        parameter(declared, given, placed)
            .map_err(|what| Failure::bad_input(format!("parameter {number} `{}`: {what}", declared.name)))
    })
    .collect()
}

fn parameter(declared: &Parameter, given: &Param, placed: &BTreeMap<String, Placed>) -> Result<Passed, String> {
    if given.at.is_some() {
        return Err("`at` is the place of a field: `fields = [{ at = .. }]`".into());
    }
    let passed = match &given.fields {
        Some(list) if given.is_plain() => Passed::Structure(declared.bytes, fields(list, placed)?),
        _ => one(given, placed, |value| natural(declared, value))?,
    };
    match &passed {
        Passed::Bytes(bytes) if bytes.len() != declared.bytes as usize => Err(format!(
            "it has {} bytes, and the value {}; `type` says what the numbers are",
            declared.bytes,
            bytes.len()
        )),
        _ => Ok(passed),
    }
}

/// What lies at places within a structure or a buffer.
///
/// # Errors
/// A field without a place, or one of the wrong kind.
pub(super) fn fields(list: &[Param], placed: &BTreeMap<String, Placed>) -> Result<Vec<(u32, Passed)>, String> {
    let field = |given: &Param| {
        let at = given.at.ok_or("a field has a place: `at = BYTES` from the start")?;
        if given.fields.is_some() {
            return Err(format!("the field at {at} has fields; give each its place from the start of the whole"));
        }
        let whole = |value: &Number| if matches!(value, Number::One(_)) { Element::F32 } else { Element::I32 };
        one(given, placed, whole).map(|passed| (at, passed)).map_err(|what| format!("the field at {at}: {what}"))
    };
    list.iter().map(field).collect()
}

/// An address, a value or a tensor map; `natural` is the type of a value that has none.
fn one(
    given: &Param,
    placed: &BTreeMap<String, Placed>,
    natural: impl Fn(&Number) -> Element,
) -> Result<Passed, String> {
    let buffer = |name: &String| placed.get(name).ok_or_else(|| format!("there is no buffer `{name}`"));
    match (&given.buffer, &given.value, &given.tensor_map) {
        (Some(name), None, None) => {
            let id = buffer(name)?.id;
            Ok(if given.offset == 0 { Passed::Buffer(id) } else { Passed::BufferAt(id, given.offset) })
        }
        (None, Some(value), None) => Ok(Passed::Bytes(bytes(given.element.unwrap_or_else(|| natural(value)), value))),
        (None, None, Some(map)) => map.of(buffer(&map.buffer)?).map(Passed::TensorMap),
        _ => Err("one of `buffer`, `value`, `tensor_map` and `fields` says what is passed".into()),
    }
}

/// The type of numbers for a parameter.
fn natural(declared: &Parameter, value: &Number) -> Element {
    match (declared.ty.as_str(), declared.bytes, matches!(value, Number::One(_))) {
        ("f32", ..) | (_, 4, true) => Element::F32,
        ("f64", ..) | (_, 8, true) => Element::F64,
        ("f16", ..) => Element::F16,
        (_, 1, _) => Element::I8,
        (_, 2, _) => Element::I16,
        (_, 8, _) => Element::I64,
        _ => Element::I32,
    }
}

fn bytes(element: Element, value: &Number) -> Vec<u8> {
    let mut bytes = Vec::new();
    match value {
        // All 64 bits of a number count.
        Number::Whole(v) if !element.is_float() => bytes.extend(&v.to_le_bytes()[..element.bytes()]),
        Number::Whole(v) => element.put(*v as f64, &mut bytes),
        Number::One(v) => element.put(*v, &mut bytes),
        Number::Many(list) => list.iter().for_each(|v| element.put(*v, &mut bytes)),
    }
    bytes
}
