//! What every set of words has.

/// A closed set of words: what a key may say, and what it may say one day.
pub(crate) trait Vocabulary: Copy + 'static {
    /// Every accepted spelling; the first spelling of a value is its canonical one.
    const WORDS: &'static [(&'static str, Self)];
    /// Words that are understood and answered with 'not implemented yet'.
    const RESERVED: &'static [&'static str];
    /// The name of the type.
    const NAME: &'static str;

    /// The canonical word of a value.
    fn word(self) -> &'static str;
}

macro_rules! vocabulary {
    ($type:ident { $($variant:ident = $word:literal $(| $alias:literal)*),+ $(,)? } reserved { $($reserved:literal),* $(,)? }) => {
        impl $type {
            /// The canonical word of the spec grammar.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }
        }

        impl Vocabulary for $type {
            const WORDS: &'static [(&'static str, Self)] =
                &[$(($word, Self::$variant), $(($alias, Self::$variant),)*)+];
            const RESERVED: &'static [&'static str] = &[$($reserved),*];
            const NAME: &'static str = stringify!($type);

            fn word(self) -> &'static str {
                self.as_str()
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}
