//! What buffers must hold after a launch, as its file says.

use std::collections::BTreeMap;
use std::path::Path;

use bsr_simulator::GlobalMemory;
use bsr_trial::sanitize::{self, Placed};

use super::super::exit::Failure;
use super::launch::{After, Buffer};
use super::npy;

/// The buffers with what each must hold.
///
/// # Errors
/// Bad input: files that do not fit.
pub(super) fn expected(
    buffers: &BTreeMap<String, Buffer>,
    placed: &BTreeMap<String, Placed>,
    memory: &GlobalMemory,
    folder: &Path,
) -> Result<Vec<sanitize::Buffer>, Failure> {
    let mut all = Vec::new();
    for (name, buffer) in buffers {
        let place = placed[name].clone();
        let after = match &buffer.after {
            After::Unchanged => sanitize::After::Holds(place.elements(memory)),
            After::File(file) => {
                let (shape, bytes) = npy::read(&folder.join(file), buffer.element)?;
                if shape != place.shape {
                    let fact = format!("buffer `{name}` has shape {:?}, and {file} has {shape:?}", place.shape);
                    return Err(Failure::bad_input(fact));
                }
                sanitize::After::Holds(bytes)
            }
            After::Equal => sanitize::After::Equal,
            After::Any => sanitize::After::Any,
        };
        all.push(sanitize::Buffer { name: name.clone(), place, after, tolerance: buffer.tolerance });
    }
    Ok(all)
}
