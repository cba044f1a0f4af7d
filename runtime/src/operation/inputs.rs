//! Whether an epilogue is given what it asks for: the same question for every device.

use bsr_codegen::Plan;
use bsr_codegen::epilogue::{InputKind, Program};

use crate::epilogue::{InputType, Supplied};
use crate::error::KernelError;

/// The program of a plan's epilogue.
pub(crate) fn program_of(plan: &Plan) -> Option<&'static Program> {
    plan.spec().epilogue.map(|epilogue| epilogue.program())
}

/// Makes sure that every parameter of the plan's epilogue is given what it is, for an `m` x `n` C, that nothing else is
/// given, and that there is a place for a second result of so many rows if and only if there is one.
///
/// An order of `m` rows must be given if and only if the plan's kernel writes C in one.
///
/// # Errors
/// [`KernelError::Epilogue`] and [`KernelError::Order`].
pub(super) fn check(
    plan: &Plan,
    (m, n): (usize, usize),
    supplied: &impl Supplied,
    second: Option<usize>,
) -> Result<(), KernelError> {
    check_order(plan, m, supplied.order())?;
    let refused = |fact: String, help: String| Err(KernelError::Epilogue { fact, help });
    let program = program_of(plan);
    let inputs = program.map_or(&[][..], Program::inputs);
    if let Some(name) = supplied.names().find(|name| inputs.iter().all(|input| input.name != *name)) {
        let known: Vec<String> = inputs.iter().map(|input| format!("{}: {}", input.name, input.kind.words())).collect();
        return match known.is_empty() {
            true => refused(
                format!("`{name}` is given, and the kernel's epilogue has no parameters"),
                "`(&a, &b)` gives none".to_owned(),
            ),
            false => {
                refused(format!("the kernel's epilogue has no `{name}`"), format!("it takes {}", known.join(", ")))
            }
        };
    }
    for input in inputs {
        let Some(found) = supplied.input(&input.name) else {
            return refused(
                format!("the kernel's epilogue reads `{}`, which is not given", input.name),
                format!(
                    "give `{}`, a {}: `(&a, &b, NAME_inputs {{ .. }})` of the kernel NAME, or `Inputs` or \
                     `DeviceInputs` by name",
                    input.name,
                    input.kind.words()
                ),
            );
        };
        if let Err((found, wanted)) = fits(plan, input.kind, found, (m, n)) {
            return refused(
                format!("`{}` is {found}, and the kernel's epilogue reads {wanted}", input.name),
                format!("`{}: {}` for a {m} x {n} C is {wanted}", input.name, input.kind.words()),
            );
        }
    }
    match (program.and_then(Program::reduction), second) {
        (None, Some(_)) => refused(
            "a second result is asked for, and the kernel has none".to_owned(),
            "an epilogue that ends in `(x, row_sum(y))` has one".to_owned(),
        ),
        (Some(reduction), None) => refused(
            format!(
                "the kernel has a second result, the {} of every row, and no place for it is given",
                reduction.as_str()
            ),
            format!("give a vector of {m} f32: `(&mut c, &mut rows)`"),
        ),
        (Some(_), Some(len)) if len != m => refused(
            format!("the second result has {len} places, and C has {m} rows"),
            format!("give a vector of {m} f32"),
        ),
        _ => Ok(()),
    }
}

fn check_order(plan: &Plan, m: usize, order: Option<usize>) -> Result<(), KernelError> {
    let refused = |fact: String, help: &'static str| Err(KernelError::Order { fact, help });
    match (plan.spec().permute.is_on(), order) {
        (true, None) => refused(
            "the kernel writes rows of C in an order, and none is given".to_owned(),
            "give one with `Inputs::order` or `DeviceInputs::order`, or a kernel with permute = off",
        ),
        (false, Some(_)) => {
            refused("an order of rows is given, and the kernel takes none".to_owned(), "a kernel with permute = on")
        }
        (true, Some(len)) if len != m => {
            refused(format!("the order is of {len} rows, and C has {m}"), "the order of all of A's rows")
        }
        _ => Ok(()),
    }
}

/// # Errors
/// What was found and what is wanted.
fn fits(plan: &Plan, kind: InputKind, found: InputType, (m, n): (usize, usize)) -> Result<(), (String, String)> {
    let dtype = kind.dtype();
    let vector = |len: usize| match found {
        InputType::Vector { dtype: other, len: other_len } if other == dtype && other_len == len => Ok(()),
        _ => Err((found.words(), format!("a vector of {len} {dtype}"))),
    };
    match kind {
        InputKind::Scalar => match found {
            InputType::Scalar => Ok(()),
            _ => Err((found.words(), "an f32".to_owned())),
        },
        InputKind::Rows(_) => vector(m),
        InputKind::Cols(_) => vector(n),
        // Of scores alone, which no product has.
        InputKind::Heads(_) => Err((found.words(), "a product, which has no heads".to_owned())),
        InputKind::Blocks(_) => match found {
            InputType::Result if plan.spec().out == dtype => Ok(()),
            InputType::Blocks { dtype: other, fits: true } if other == dtype => Ok(()),
            _ => Err((found.words(), format!("values of {dtype} of C's blocks"))),
        },
        InputKind::Dense(_) => {
            let expected = plan.spec().c_layout;
            match found {
                InputType::Result if plan.spec().out == dtype => Ok(()),
                InputType::Matrix { dtype: other, rows, cols, layout } if other == dtype && (rows, cols) == (m, n) => {
                    let words = |layout| format!("a {layout}-major matrix");
                    if layout == expected { Ok(()) } else { Err((words(layout), words(expected))) }
                }
                _ => Err((found.words(), format!("a {m} x {n} matrix of {dtype}"))),
            }
        }
    }
}
