//! Many specs written as one: `bn = [128, 256], stages = 3..=5` is every `bn` with every number of `stages`.

use std::collections::{HashMap, HashSet};

use super::{Element, Entry, KernelSpec, Key, MOST_MEMBERS, Place, Request, SpecError, SpecErrorKind, Value, build};

/// A family of kernels: what is the same for all members, and the keys whose values are lists.
///
/// ```
/// use bsr_codegen::spec::LocatedFamily;
///
/// let located = LocatedFamily::from_text("bm = 128, bn = [128, 256], bk = 64, stages = 3..=4")?;
/// let names: Vec<String> = located.family().members().iter().map(|member| member.name()).collect();
/// assert_eq!(names, ["bn128_stages3", "bn128_stages4", "bn256_stages3", "bn256_stages4"]);
/// # Ok::<(), bsr_codegen::spec::SpecErrors>(())
/// ```
#[derive(Clone, Debug)]
pub struct FamilySpec<P> {
    request: Request<P>,
    axes: Vec<Axis<P>>,
    members: Vec<FamilyMember>,
}

/// A key whose value is a list.
#[derive(Clone, Debug)]
pub struct Axis<P> {
    /// The key.
    pub key: Key,
    /// The values, in order of writing.
    pub values: Vec<Element<P>>,
    /// The number of its entry in the request.
    entry: usize,
}

/// One kernel of a family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FamilyMember {
    /// Its spec.
    pub spec: KernelSpec,
    /// The differences from other members: the keys with lists, and their values here in canonical words.
    pub settings: Vec<(Key, String)>,
    /// The number of its value on every axis.
    choice: Vec<usize>,
}

impl<P: Place> Request<P> {
    /// True where a value is a list, so that the request describes a family instead of one kernel.
    pub fn is_family(&self) -> bool {
        self.entries.iter().any(|entry| matches!(entry.value, Value::List(_)))
    }

    /// The keys whose values are lists, in order of writing: of a key that is written twice the first.
    pub fn axes(&self) -> Vec<Axis<P>> {
        let (mut known, mut axes) = (HashSet::new(), Vec::new());
        for (at, entry) in self.entries.iter().enumerate() {
            let is_first = known.insert(&entry.key);
            if let (true, Value::List(values), Some(key)) = (is_first, &entry.value, Key::find(&entry.key)) {
                axes.push(Axis { key, values: values.clone(), entry: at });
            }
        }
        axes
    }

    /// The request for one kernel: of every axis of this request the value of this number in place of the list.
    #[must_use]
    pub fn choose(&self, axes: &[Axis<P>], choice: &[usize]) -> Self {
        let mut request = self.clone();
        for (axis, chosen) in axes.iter().zip(choice) {
            let Element { value, place } = axis.values[*chosen].clone();
            let entry = &mut request.entries[axis.entry];
            *entry = Entry { value, value_place: place, ..entry.clone() };
        }
        request
    }
}

impl<P: Place> FamilySpec<P> {
    /// Interprets a request whose values may be lists. Without any, the family has one member.
    ///
    /// # Errors
    /// Those of every member, each once, on the element of the list that is wrong; values that a list holds twice; more
    /// than [`MOST_MEMBERS`] members.
    pub fn new(request: Request<P>) -> Result<Self, Vec<SpecError<P>>> {
        let mut family = Self { axes: request.axes(), request, members: Vec::new() };
        let count = family.axes.iter().fold(1_usize, |count, axis| count.saturating_mul(axis.values.len()));
        let mut errors = Vec::new();
        for number in 0..count.min(MOST_MEMBERS) {
            let choice = family.choice(number);
            match build(&family.request(&choice)) {
                Ok(spec) => {
                    let settings = family.axes.iter().map(|axis| (axis.key, spec.value(axis.key))).collect();
                    family.members.push(FamilyMember { spec, settings, choice });
                }
                Err(found) => add_new(&mut errors, found),
            }
        }
        add_new(&mut errors, family.repetitions());
        if count > MOST_MEMBERS {
            errors.push(family.too_many());
        }
        if errors.is_empty() { Ok(family) } else { Err(errors) }
    }

    /// The keys with lists, in order of writing.
    pub fn axes(&self) -> &[Axis<P>] {
        &self.axes
    }

    /// The members: the first list varies slowest, the last one fastest.
    pub fn members(&self) -> &[FamilyMember] {
        &self.members
    }

    /// The place that decides `key` for a member, as [`Request::place_of`] finds it.
    pub fn place_of(&self, member: &FamilyMember, key: &str) -> P {
        self.request(&member.choice).place_of(key).clone()
    }

    /// The digits of `number`, where every axis is a digit.
    fn choice(&self, mut number: usize) -> Vec<usize> {
        let mut choice = vec![0; self.axes.len()];
        for (digit, axis) in choice.iter_mut().zip(&self.axes).rev() {
            (*digit, number) = (number % axis.values.len(), number / axis.values.len());
        }
        choice
    }

    /// The request for one member: a value in place of every list.
    fn request(&self, choice: &[usize]) -> Request<P> {
        self.request.choose(&self.axes, choice)
    }

    /// Members that are the same kernel as an earlier one.
    fn repetitions(&self) -> Vec<SpecError<P>> {
        let mut seen: HashMap<KernelSpec, &FamilyMember> = HashMap::new();
        let mut errors = Vec::new();
        for member in &self.members {
            let Some(earlier) = seen.get(&member.spec) else {
                seen.insert(member.spec, member);
                continue;
            };
            let mut differing = (0..self.axes.len()).filter(|at| earlier.choice[*at] != member.choice[*at]);
            let Some(at) = differing.next() else { continue };
            let axis = &self.axes[at];
            let [first, second] = [earlier, member].map(|member| &axis.values[member.choice[at]]);
            add_new(
                &mut errors,
                vec![SpecError {
                    kind: SpecErrorKind::Repeated {
                        key: axis.key,
                        value: member.spec.value(axis.key),
                        written: [first.value.to_string(), second.value.to_string()],
                    },
                    place: second.place.clone(),
                    earlier: Some(first.place.clone()),
                }],
            );
        }
        errors
    }

    fn too_many(&self) -> SpecError<P> {
        let axes = self.axes.iter().map(|axis| (axis.key, axis.values.len())).collect();
        let longest = self.axes.iter().rev().max_by_key(|axis| axis.values.len());
        let place = longest.map_or(&self.request.whole, |axis| &self.request.entries[axis.entry].value_place);
        SpecError::new(SpecErrorKind::TooMany { axes, most: MOST_MEMBERS }, place.clone())
    }
}

/// Adds the errors of one more member, without those that an earlier one has shown.
fn add_new<P>(errors: &mut Vec<SpecError<P>>, found: Vec<SpecError<P>>) {
    let known = errors.len();
    for error in found {
        if errors[..known].iter().all(|earlier| earlier.kind != error.kind) {
            errors.push(error);
        }
    }
}

impl FamilyMember {
    /// The differences from other members, as an identifier: `bn128_stages3_f16`.
    pub fn name(&self) -> String {
        let labels: Vec<String> = self.settings.iter().map(|(key, value)| label(*key, value)).collect();
        labels.join("_")
    }
}

/// One value in a name. A word that only this key has needs no key before it.
fn label(key: Key, value: &str) -> String {
    let is_auto = value == "auto";
    match key {
        // Text of any length and with any sign in it: its digest.
        Key::Epilogue | Key::Score if value != "none" => {
            format!("{key}_{}", &crate::fingerprint::fingerprint(value)[..8])
        }
        Key::Warps if !is_auto => format!("warps{}", value.replace(", ", "x").replace(['(', ')'], "")),
        _ if value.starts_with(|first: char| first.is_ascii_digit()) => format!("{key}{value}"),
        Key::Op | Key::Mma | Key::Dtype | Key::Accumulate | Key::Arch | Key::Shape | Key::Schedule if !is_auto => {
            value.into()
        }
        _ => format!("{key}_{value}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::LocatedFamily;
    use super::*;

    const TILE: &str = "bm = 64, bn = 128, bk = 32";

    fn family(text: &str) -> LocatedFamily {
        LocatedFamily::from_text(text).unwrap()
    }

    fn names(text: &str) -> Vec<String> {
        family(text).family().members().iter().map(FamilyMember::name).collect()
    }

    /// The specs of the members as text.
    fn specs(family: &LocatedFamily) -> Vec<String> {
        family.family().members().iter().map(|member| member.spec.to_string()).collect()
    }

    fn snapshot(name: &str, texts: &[&str]) {
        let report = |text: &&str| match LocatedFamily::from_text(text) {
            Ok(family) => format!("## {text}\nread as\n  {}\n", specs(&family).join("\n  ")),
            Err(errors) => format!("## {text}\n{errors}\n"),
        };
        let text = texts.iter().map(report).collect::<Vec<_>>().join("\n");
        insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(name, text) });
    }

    #[test]
    fn the_first_list_varies_slowest() {
        let family = family("bm = 64, stages = 3..5, bk = 32, bn = [256, 128]");
        let order = family.family().members().iter().map(|member| (member.spec.stages, member.spec.bn));
        let expected = [(Some(3), 256), (Some(3), 128), (Some(4), 256), (Some(4), 128)];
        assert_eq!(order.collect::<Vec<_>>(), expected);
        let axes: Vec<_> = family.family().axes().iter().map(|axis| (axis.key, axis.values.len())).collect();
        assert_eq!(axes, [(Key::Stages, 2), (Key::Bn, 2)]);
    }

    #[test]
    fn a_member_is_the_spec_of_its_values() {
        let family = family("bm = 64, bn = [128, 256], bk = 32, stages = [2, 4..=5, auto], warps = [(2, 4), auto]");
        assert_eq!(family.family().members().len(), 2 * 4 * 2);
        for member in family.family().members() {
            let setting = |(key, value): &(Key, String)| format!(", {key} = {value}");
            let text = format!("bm = 64, bk = 32{}", member.settings.iter().map(setting).collect::<String>());
            assert_eq!(text.parse::<KernelSpec>().unwrap(), member.spec);
        }
    }

    #[test]
    fn without_a_list_there_is_one_member() {
        let family = family(TILE);
        assert_eq!(specs(&family), [TILE]);
        assert_eq!(family.family().members()[0].name(), "");
    }

    #[test]
    fn a_list_of_one_is_a_list() {
        assert_eq!(names("bm = 64, bn = [0x80], bk = 32"), ["bn128"]);
    }

    #[test]
    fn names_are_identifiers_that_tell_members_apart() {
        let text = "bm = 64, bn = [128], bk = 32, dtype = [f16, e4m3], out = [f32], b_layout = [col], scale = [none], \
                    accumulate = [auto, fast], warps = [(2, 4), auto], arch = [sm_90a], stages = [auto, 3]";
        let names = names(text);
        assert_eq!(names[0], "bn128_f16_out_f32_b_layout_col_scale_none_accumulate_auto_warps2x4_sm_90a_stages_auto");
        assert_eq!(names.len(), 16);
        let distinct: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), 16);
        let is_identifier =
            |name: &String| name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        assert!(names.iter().all(is_identifier), "{names:?}");
    }

    #[test]
    fn toml_writes_the_same_families() {
        let text =
            "bm = 64, bn = [128, 256], bk = 32, stages = [2, 4..=5], warps = [(2, 4), (4, 2)], dtype = [f16, bf16]";
        let toml = "[kernel]\nbm = 64\nbn = [128, 256]\nbk = 32\nstages = [2, '4..=5']\nwarps = [[2, 4], '(4, 2)']\n\
                    dtype = '[f16, bf16]'\n";
        assert_eq!(specs(&LocatedFamily::from_toml(toml).unwrap()), specs(&family(text)));
        let pair = "bm = 64\nbn = 128\nbk = 32\nwarps = ";
        for warps in ["[2, 4]", "'(2, 4)'", "\"(2, 4)\""] {
            let spec = KernelSpec::from_toml(&format!("{pair}{warps}\n")).unwrap();
            assert_eq!(spec.warps, Some((2, 4)), "{warps}");
        }
    }

    #[test]
    fn a_type_parameter_is_one_dtype_in_every_place() {
        let entry = |key: &str, value| Entry { key: key.into(), key_place: 0..0, value, value_place: 0..1 };
        let request = |result: &str, dtypes: [&str; 2]| {
            let dtypes = dtypes.map(|word| Element { value: Value::word(word), place: 1..2 });
            let sizes = ["bm", "bn", "bk"].map(|key| entry(key, Value::number(64)));
            let [a, b] = ["a", "b"].map(|key| entry(key, Value::Parameter("T".into())));
            Request {
                entries: sizes.into_iter().chain([entry("dtype", Value::List(dtypes.to_vec()))]).collect(),
                signature: vec![a, b, entry("out", Value::Parameter(result.into()))],
                epilogue: None,
                errors: Vec::new(),
                whole: 0..0,
            }
        };
        let outs = |result, dtypes| {
            let family = FamilySpec::new(request(result, dtypes));
            family.map(|family| family.members().iter().map(|member| member.spec.out.as_str()).collect::<Vec<_>>())
        };
        assert_eq!(outs("T", ["f16", "e4m3"]), Ok(vec!["f16", "e4m3"]));
        assert_eq!(outs("U", ["f16", "e4m3"]), Ok(vec!["f16", "bf16"]));
        let errors = outs("T", ["f16", "i8"]).unwrap_err();
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), ["`out` cannot be `i8`"]);
    }

    #[test]
    fn reports_of_families() {
        snapshot(
            "families",
            &[
                "bm = 64, bn = [128, 256], bk = 32, stages = 3..5",
                "bm = 64, bn = [128, 0x80], bk = 32, stages = [3, 3], dtype = [auto, bf16, f16]",
                "bm = 64, bn = [128, wide, 0, \"256\"], bk = 32, dtype = [f16, fp8, half]",
                "bm = 64, bn = [128, 256], bk = 32, stage = [2, 3], bn = [64, 96], a = [bf16, f16], dtype = f16",
                "bm = 64, bn = 1..=16, bk = [32, 64], stages = 2..=20",
                "bm = 64, bn = 1..=257, bk = 32",
                "bm = 64, bn = [[128, 256], 64], bk = 32, warps = [2, 4]",
                "bm = 64, bn = [(128, 256)], bk = 32, warps = [(2, 4), (2, 0), ([2], 1..=2)]",
                "bn = [128, 128], bk = 32",
            ],
        );
    }

    #[test]
    fn a_later_error_is_printed_under_the_element_it_blames() {
        let family = family("bm = 64, bn = [128, 256], bk = 32, stages = 3..=4");
        let last = &family.family().members()[3];
        let report = ["bn", "stages", "cluster"].map(|key| family.blame(last, key, "the fact", &["the remedy".into()]));
        insta::with_settings!({ omit_expression => true }, {
            insta::assert_snapshot!("family_blame", report.join("\n\n"));
        });
    }
}
