//! What the rows of the table in `keys.rs` make: the enum [`Key`](super::Key), the struct
//! [`KernelSpec`](super::KernelSpec) with its setters, and what is known of every key.
//!
//! A row is
//!
//! ```text
//! Variant name: Type where which_words = default kind families
//!     "one sentence", by_default "how the default is chosen";
//! ```
//!
//! `where which_words` is for a key that takes only some words of its vocabulary. The default is a constant in
//! parentheses, `auto` (the field is an `Option`, and the plan decides) or `required`. The kind is `fact` for what says which product
//! is computed and to which precision, and `choice` for what says how. The families are those that have the key, by
//! their instructions, the fastest first, or `all`. `by_default` is needed where a constant does not say it.
//! `name as Type` in place of `name: Type` is a key without a field: another name for what other keys say.

/// Makes [`Key`](super::Key) and [`KernelSpec`](super::KernelSpec) of the table.
macro_rules! keys {
    ($(
        $variant:ident $name:ident $(: $(#[$attribute:meta])* $type:ty $(where $words:path)?)? $(as $alias:ty $(where $alias_words:path)?)?
            = $default:tt $kind:ident $families:tt
            $sentence:literal $(, by_default $by_default:literal)?;
    )+) => {
        /// One key of the grammar.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Key {
            $(#[doc = concat!("`", stringify!($name), "`: ", $sentence, ".")] $variant,)+
        }

        impl Key {
            /// Every key, in the order of the canonical text.
            pub const ALL: [Self; [$(stringify!($variant)),+].len()] = [$(Self::$variant),+];

            /// The key as it is written.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($name)),+ }
            }

            /// The meaning of the key, in a few words.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $sentence),+ }
            }

            /// True for `bm`, `bn` and `bk`, which have no default.
            pub const fn is_required(self) -> bool {
                match self { $(Self::$variant => column!(is_required $default)),+ }
            }

            /// True for what says which product is computed, and to which precision; all other keys are choices.
            pub const fn is_fact(self) -> bool {
                match self { $(Self::$variant => column!(is_fact $kind)),+ }
            }

            /// True for another name of what other keys say: no field of a [`KernelSpec`] is called like it.
            pub const fn is_alias(self) -> bool {
                match self {
                    $($(Self::$variant => column!(is_alias field $type),)?
                      $(Self::$variant => column!(is_alias name $alias),)?)+
                }
            }

            /// The instructions of the kernels that have the key, the fastest first.
            pub const fn instructions(self) -> &'static [Mma] {
                match self { $(Self::$variant => column!(instructions $families)),+ }
            }

            /// What the key takes beside `auto`.
            pub fn takes(self) -> Takes {
                match self {
                    $($(Self::$variant => <$type as Setting>::takes(column!(words $($words)?)),)?
                      $(Self::$variant => <$alias as Setting>::takes(column!(words $($alias_words)?)),)?)+
                }
            }

            /// How the default is chosen, where it is not always the same.
            pub const fn by_default(self) -> Option<&'static str> {
                match self { $(Self::$variant => column!(by_default $($by_default)?)),+ }
            }
        }

        /// The request for a kernel computing C\[M, N\] = A\[M, K\] * B\[K, N\] with one of the three in blocks.
        ///
        /// `None` stands for `auto`: the plan decides. [`KernelSpec::new`] and the setters make one, also in constants:
        ///
        /// ```
        /// use bsr_codegen::{KernelSpec, Op};
        ///
        /// const SPEC: KernelSpec = KernelSpec::new(512, 128, 112).op(Op::Dds).stages(4);
        /// assert_eq!(SPEC.to_string(), "bm = 512, bn = 128, bk = 112, op = dds, stages = 4");
        /// ```
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, remote = "Self")]
        #[non_exhaustive]
        pub struct KernelSpec {
            $($(
                #[doc = concat!("`", stringify!($name), "`: ", $sentence, ".")]
                $(#[$attribute])*
                pub $name: column!(field $default $type),
            )?)+
        }

        impl KernelSpec {
            /// Every key at its default; the required ones have the value 1.
            pub(super) const DEFAULT: Self = Self { $($($name: column!(default $default $type),)?)+ };

            $($(
                #[doc = concat!("The same spec with this `", stringify!($name), "`: ", $sentence, ".")]
                #[must_use]
                pub const fn $name(self, $name: $type) -> Self {
                    Self { $name: column!(given $default $name), ..self }
                }
            )?)+

            /// Calls `each` with every field, in order: its key, its name, its value.
            fn each_field(&self, mut each: impl FnMut(Key, &'static str, &dyn fmt::Debug)) {
                $($(
                    let value: &column!(field $default $type) = &self.$name;
                    each(Key::$variant, stringify!($name), value);
                )?)+
            }

            /// What the spec says of `key`, as in the other one from here on.
            pub fn copy_key(&mut self, key: Key, other: &Self) {
                match key {
                    $($(Key::$variant => {
                        let value: column!(field $default $type) = other.$name;
                        self.$name = value;
                    })?)+
                    Key::Dtype => (self.a, self.b) = (other.a, other.b),
                    Key::Beta => self.epilogue = other.epilogue,
                }
            }

            /// Reads what a source says of `key`. Where it says nothing, the field stays as it is.
            pub(super) fn read(&mut self, key: Key, source: &mut impl Source) {
                match key {
                    $($(Key::$variant => {
                        if let Some(found) = <$type as Setting>::read(source, key) {
                            self.$name = column!(given $default found);
                        }
                    })?)+
                    Key::Dtype | Key::Beta => {}
                }
            }

            /// The value of a field, in the word or number of the canonical text; `None` where the plan decides.
            pub(super) fn written(&self, key: Key) -> Option<String> {
                match key {
                    $($(Key::$variant => {
                        let value: Option<$type> = column!(optional $default self.$name);
                        value.map(|value| value.written())
                    })?)+
                    Key::Dtype => Some(self.a.to_string()),
                    Key::Beta => Some(self.beta().to_string()),
                }
            }

            /// The spec as a constant expression of Rust, for a program in which the types of this crate are in `path`:
            /// `::bsr::KernelSpec::new(512, 128, 112).stages(4)`.
            pub fn expression(&self, path: &str) -> String {
                let Self { bm, bn, bk, .. } = *self;
                let mut text = format!("{path}::KernelSpec::new({bm}, {bn}, {bk})");
                let default = Self::new(bm, bn, bk);
                $($(
                    if self.$name != default.$name {
                        let value: Option<$type> = column!(optional $default self.$name);
                        let value = value.map(|value| value.expression(path)).unwrap_or_default();
                        text.push_str(&format!(concat!(".", stringify!($name), "({})"), value));
                    }
                )?)+
                text
            }
        }
    };
}

/// What one column of a row means in one place.
macro_rules! column {
    (is_required required) => { true };
    (is_required $default:tt) => { false };
    (is_fact fact) => { true };
    (is_fact choice) => { false };
    (is_alias field $type:ty) => { false };
    (is_alias name $type:ty) => { true };
    (instructions all) => { &Mma::ALL };
    (instructions { $($mma:ident)+ }) => { &[$(Mma::$mma),+] };
    (words) => { None };
    (words $words:path) => { Some($words) };
    (by_default) => { None };
    (by_default $text:literal) => { Some($text) };
    (field auto $type:ty) => { Option<$type> };
    (field $default:tt $type:ty) => { $type };
    (default auto $type:ty) => { None };
    (default required $type:ty) => { 1 };
    (default ($default:expr) $type:ty) => { $default };
    (given auto $value:expr) => { Some($value) };
    (given $default:tt $value:expr) => { $value };
    (optional auto $value:expr) => { $value };
    (optional $default:tt $value:expr) => { Some($value) };
}

pub(super) use {column, keys};
