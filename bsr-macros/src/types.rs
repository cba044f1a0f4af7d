//! What the type of an operand is written as: a matrix, and its element type.

use syn::{GenericArgument, PathArguments, Type};

/// The last word of a path type: `Bsr` of `bsr::Bsr<f16>`.
pub(crate) fn matrix_name(ty: &Type) -> Option<String> {
    match ty {
        Type::Path(path) => Some(path.path.segments.last()?.ident.to_string()),
        _ => None,
    }
}

/// `f16` of `Bsr<f16>`.
pub(crate) fn element_path(ty: &Type) -> Option<&syn::Path> {
    let Type::Path(path) = ty else { return None };
    let PathArguments::AngleBracketed(arguments) = &path.path.segments.last()?.arguments else {
        return None;
    };
    match arguments.args.first() {
        Some(GenericArgument::Type(Type::Path(element))) if arguments.args.len() == 1 => Some(&element.path),
        _ => None,
    }
}
