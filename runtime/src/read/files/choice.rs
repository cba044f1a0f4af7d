//! Which array of a file with several is meant.

use super::ReadProblem;

/// An array of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) name: String,
    /// Shape and type, in words.
    pub(super) what: String,
    /// Whether it can be read as a matrix of floating-point numbers.
    pub(super) is_matrix: bool,
}

impl Listed {
    pub(super) fn new(name: &str, shape: &[usize], kind: &str, is_float: bool) -> Self {
        Self { name: name.to_owned(), what: format!("{shape:?} {kind}"), is_matrix: is_float && shape.len() == 2 }
    }
}

/// The one called `wanted`, or the only matrix there is.
///
/// # Errors
/// When there is no such array, it is no matrix, or there are several; with those that could be meant.
pub(super) fn choose<'l>(listed: &'l [Listed], wanted: Option<&str>) -> Result<&'l Listed, ReadProblem> {
    let matrices: Vec<&Listed> = listed.iter().filter(|array| array.is_matrix).collect();
    let several = |fact: String| {
        let mut names: Vec<String> = matrices.iter().map(|array| format!("{} {}", array.name, array.what)).collect();
        names.sort();
        Err(ReadProblem::choose(&fact, &names))
    };
    match (wanted, &matrices[..]) {
        (Some(name), _) => match listed.iter().find(|array| array.name == name) {
            Some(array) if array.is_matrix => Ok(array),
            Some(array) => several(format!("`{name}` is {}, no matrix of floating-point numbers", array.what)),
            None => several(format!("there is no array `{name}`")),
        },
        (None, [only]) => Ok(only),
        (None, []) => several(format!("none of {} arrays is a matrix of floating-point numbers", listed.len())),
        (None, _) => several(format!("there are {} matrices", matrices.len())),
    }
}
