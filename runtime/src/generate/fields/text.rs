//! Fields as text: `name:sizes`.

use std::fmt;
use std::str::FromStr;

use bsr_codegen::Refusal;

use super::Field;

/// The forms of a field, and an example of each.
const FORMS: [(&str, &str, &str); 6] = [
    ("elasticity", "XxYxZ", "16x16x16"),
    ("stokes", "XxYxZ", "16x16x16"),
    ("reservoir", "XxYxZ", "30x30x10"),
    ("euler", "XxYxZ", "16x16x16"),
    ("shell", "XxY", "64x64"),
    ("graph", "NODESxEDGESxBLOCK", "1000x8x4"),
];

impl FromStr for Field {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let text = text.trim();
        let (name, sizes) = text.split_once(':').unwrap_or((text, ""));
        let Some((_, form, example)) = FORMS.iter().find(|(known, ..)| *known == name) else {
            let forms = FORMS.map(|(name, form, _)| format!("{name}:{form}")).join(", ");
            return Err(Refusal::new(format!("`{text}` is not a field"))
                .help(format!("write one of {forms}, for instance elasticity:16x16x16")));
        };
        let wrong = || {
            let count = form.split('x').count();
            Refusal::new(format!("`{text}`: `{sizes}` is not {count} whole numbers, {form}"))
                .help(format!("write {name}:{example}"))
        };
        let sizes: Vec<usize> =
            sizes.split('x').map(|size| size.trim().parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
        match (name, sizes[..].as_ref()) {
            ("elasticity", &[x, y, z]) => Ok(Self::Elasticity([x, y, z])),
            ("stokes", &[x, y, z]) => Ok(Self::Stokes([x, y, z])),
            ("reservoir", &[x, y, z]) => Ok(Self::Reservoir([x, y, z])),
            ("euler", &[x, y, z]) => Ok(Self::Euler([x, y, z])),
            ("shell", &[x, y]) => Ok(Self::Shell([x, y])),
            ("graph", &[nodes, edges, features]) => Ok(Self::Graph { nodes, edges, features }),
            _ => Err(wrong()),
        }
    }
}

/// The text that parses to this field.
impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elasticity([x, y, z]) => write!(f, "elasticity:{x}x{y}x{z}"),
            Self::Stokes([x, y, z]) => write!(f, "stokes:{x}x{y}x{z}"),
            Self::Reservoir([x, y, z]) => write!(f, "reservoir:{x}x{y}x{z}"),
            Self::Euler([x, y, z]) => write!(f, "euler:{x}x{y}x{z}"),
            Self::Shell([x, y]) => write!(f, "shell:{x}x{y}"),
            Self::Graph { nodes, edges, features } => write!(f, "graph:{nodes}x{edges}x{features}"),
        }
    }
}
