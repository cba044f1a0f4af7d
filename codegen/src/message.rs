//! How errors are printed by a `main` that returns them: Rust prints their `Debug`.

/// Makes the `Debug` of error types their message, and the remedies, where the type keeps them apart in `help()`.
///
/// A program whose `main` returns an error ends with the error's `Debug`. What its reader needs is the fact and the remedy, not
/// the names of variants and fields.
#[doc(hidden)]
#[macro_export]
macro_rules! message_as_debug {
    ($error:ident $(<$place:ident>)?) => {
        impl $(<$place>)? ::core::fmt::Debug for $error $(<$place>)? {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self, f)
            }
        }
    };
    ($error:ident $(<$place:ident>)?, and help) => {
        impl $(<$place>)? ::core::fmt::Debug for $error $(<$place>)? {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self, f)?;
                self.help().into_iter().try_for_each(|help| ::core::write!(f, "\n  help: {help}"))
            }
        }
    };
}
