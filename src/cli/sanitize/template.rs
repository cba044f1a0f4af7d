//! `--launch-from`: a launch file with what a kernel's text tells, for its author to complete.

use std::fmt::Write as _;

use bsr_simulator::{Parameter, Role, Signature};

/// The file for a kernel.
pub(super) fn template(entry: &str, signature: &Signature) -> String {
    let mut out = format!(
        "# A launch of `{entry}`. Sizes marked with ? are guesses.\nentry = \"{entry}\"\ngrid = [1, 1, 1]  # ?\n"
    );
    if let Some(cluster) = signature.cluster {
        let _ = writeln!(out, "cluster = {cluster:?}  # .reqnctapercluster");
    }
    let _ = match (signature.block, signature.most_threads) {
        (Some(block), _) => writeln!(out, "block = {block:?}  # .reqntid"),
        (None, Some(most)) => writeln!(out, "block = [{most}, 1, 1]  # ? .maxntid is {most}"),
        (None, None) => writeln!(out, "block = [128, 1, 1]  # ?"),
    };
    let _ = writeln!(out, "shared = 0  # ? bytes of dynamic shared memory; {} are static", signature.static_shared);
    let mut params = String::new();
    for (number, parameter) in signature.params.iter().enumerate() {
        one(number, parameter, &mut out, &mut params);
    }
    out + params.as_str()
}

fn one(number: usize, parameter: &Parameter, buffers: &mut String, params: &mut String) {
    let Parameter { name, bytes, ty, role, .. } = parameter;
    let buffer = format!("p{number}");
    let _ = match role {
        Role::Buffer { used: false, .. } => {
            writeln!(params, "\n[[params]]  # {name}: no instruction uses this address\nvalue = 0")
        }
        Role::Buffer { element, written, .. } => {
            let (element, why) = guess(*element);
            let _ = writeln!(buffers, "\n[buffers.{buffer}]\ntype = \"{element}\"{why}\nshape = [1024]  # ?");
            let _ = writeln!(buffers, "{}", values(element));
            let _ = writeln!(buffers, "{}", if *written { "after = \"equal\"" } else { "after = \"unchanged\"" });
            writeln!(params, "\n[[params]]  # {name}\nbuffer = \"{buffer}\"")
        }
        Role::TensorMap { rank } => {
            let rank = rank.unwrap_or(2) as usize;
            let (shape, boxed) = (vec!["64"; rank].join(", "), vec!["64"; rank].join(", "));
            let _ =
                writeln!(buffers, "\n[buffers.{buffer}]\ntype = \"f16\"  # ?\nshape = [{shape}]  # ? innermost last");
            let map = format!("{{ buffer = \"{buffer}\", box = [{boxed}], swizzle = 128 }}");
            writeln!(params, "\n[[params]]  # {name}\ntensor_map = {map}  # ? the box innermost first")
        }
        Role::Value if matches!(ty.as_str(), "f32" | "f64") => {
            writeln!(params, "\n[[params]]  # {name}: .{ty}\nvalue = 1.0  # ?")
        }
        Role::Value if *bytes > 8 => {
            let words = vec!["0"; (bytes / 4) as usize].join(", ");
            writeln!(params, "\n[[params]]  # {name}: {bytes} bytes\ntype = \"u32\"\nvalue = [{words}]  # ?")
        }
        Role::Value => writeln!(params, "\n[[params]]  # {name}: .{ty}\nvalue = 1  # ?"),
    };
}

/// The type of elements that are accessed so, and a remark.
fn guess(element: Option<&str>) -> (&str, &'static str) {
    match element {
        Some("b8" | "u8" | "s8") => ("u8", "  # ? accessed by bytes"),
        Some("b16" | "u16" | "s16") => ("f16", "  # ? accessed by 16 bits: f16, bf16 or u16"),
        Some("b32" | "u32") => ("f32", "  # ? accessed by 32 bits: f32, u32 or pairs of 16"),
        Some("b64" | "u64") => ("u64", "  # ? accessed by 64 bits"),
        Some("s32") => ("i32", ""),
        Some("s64") => ("i64", ""),
        Some("f64") => ("f64", ""),
        Some("f32") => ("f32", ""),
        Some("f16" | "f16x2") => ("f16", ""),
        Some("bf16" | "bf16x2") => ("bf16", ""),
        _ => ("f16", "  # ? accessed by copies alone"),
    }
}

fn values(element: &str) -> &'static str {
    match element {
        "u8" | "u64" | "i32" | "i64" => "values = 0",
        _ => "values = \"normal\"",
    }
}
