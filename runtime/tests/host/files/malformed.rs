//! `.safetensors` files that are wrong, each refused for what is wrong with it; and archives with a wrong extra.

use std::io::Cursor;
use std::path::Path;
use std::sync::LazyLock;

use bsr_runtime::read::{self, ReadError, Sparse};
use bsr_runtime::write::{self, Options};
use bsr_runtime::{Bsr, Dtype, Layout, Pattern, Permutation};
use proptest::prelude::*;

fn parse(bytes: &[u8], name: Option<&str>) -> Result<Sparse, ReadError> {
    read::parse_safetensors(Cursor::new(bytes), Path::new("w.safetensors"), name)
}

/// A file of this header and so many bytes of zeros.
fn file(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn refusal(header: &str, data: &[u8]) -> String {
    parse(&file(header, data), None).unwrap_err().to_string()
}

/// A valid file of blocks.
static VALID: LazyLock<Vec<u8>> = LazyLock::new(valid);

fn valid() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.safetensors");
    let matrix = Bsr::<f32>::generate(Pattern::Random(0.5), 10, 9, (4, 2), 1).unwrap();
    let order = Permutation::new((0..10).rev().collect()).unwrap();
    write::save(&matrix, &path, Options { row_order: Some(&order), overwrite: false }).unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn dense_tensors_of_every_float_are_read() {
    let f16s: Vec<u8> =
        [1.0f32, -2.0, 0.0, 65504.0].iter().flat_map(|v| half::f16::from_f32(*v).to_le_bytes()).collect();
    let bf16s: Vec<u8> =
        [1.0f32, -2.0, 0.0, 3e38].iter().flat_map(|v| half::bf16::from_f32(*v).to_le_bytes()).collect();
    let f64s: Vec<u8> = [1.0f64, -2.0, 0.0, 1e300].iter().flat_map(|v| v.to_le_bytes()).collect();
    for (kind, data, dtype, last) in [
        ("F16", &f16s, Some(Dtype::F16), 65504.0),
        ("BF16", &bf16s, Some(Dtype::BF16), half::bf16::from_f32(3e38).to_f64()),
        ("F64", &f64s, None, 1e300),
    ] {
        let header = format!(
            "{{\"bias\":{{\"dtype\":\"F16\",\"shape\":[0],\"data_offsets\":[0,0]}},\
             \"w\":{{\"dtype\":\"{kind}\",\"shape\":[2,2],\"data_offsets\":[0,{}]}}}}",
            data.len()
        );
        let sparse = parse(&file(&header, data), None).unwrap();
        let mut listed = Vec::new();
        sparse.for_each(|row, col, value| listed.push((row, col, value)));
        assert_eq!(listed, [(0, 0, 1.0), (0, 1, -2.0), (1, 1, last)], "{kind}");
        assert_eq!(sparse.own_dtype(), dtype);
        assert!(
            parse(&file(&header, data), Some("bias")).unwrap_err().to_string().contains("`bias` is [0] F16, no matrix")
        );
    }
}

#[test]
fn several_tensors_are_listed() {
    let header = "{\"b\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[4,8]},\
                  \"a\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]},\
                  \"c\":{\"dtype\":\"I8\",\"shape\":[2,2],\"data_offsets\":[8,12]}}";
    assert_eq!(
        refusal(header, &[0; 12]),
        "w.safetensors: there are 2 matrices\n  help: name one of these:\n  a [1, 1] F32\n  b [1, 1] F32"
    );
    assert!(parse(&file(header, &[0; 12]), Some("a")).is_ok());
    let integers = parse(&file(header, &[0; 12]), Some("c")).unwrap_err().to_string();
    assert!(
        integers.contains("`c` is [2, 2] I8, no matrix of floating-point numbers\n  help: name one of these:"),
        "{integers}"
    );
    assert!(refusal("{}", &[]).ends_with(
        "none of 0 arrays is a matrix of floating-point numbers\n  help: the file must hold a \
        matrix of f16, bf16, f32 or f64"
    ));
}

#[test]
fn wrong_headers_are_refused_with_the_fact() {
    let one = |shape: &str, offsets: &str| {
        format!("{{\"w\":{{\"dtype\":\"F32\",\"shape\":{shape},\"data_offsets\":{offsets}}}}}")
    };
    assert!(parse(&[1, 2, 3], None).unwrap_err().to_string().contains("3 bytes hold no header"));
    let huge = parse(&u64::MAX.to_le_bytes(), None).unwrap_err().to_string();
    assert!(huge.contains("the header claims 18446744073709551615 bytes of a file of 8"), "{huge}");
    for (header, data, said) in [
        ("not json".to_owned(), 0, "the header is wrong: "),
        (one("[2,2]", "[0,16]"), 15, "the tensors take 16 bytes, but 15 follow the header"),
        (one("[2,2]", "[0,16]"), 17, "the tensors take 16 bytes, but 17 follow the header"),
        (one("[2,3]", "[0,16]"), 16, "invalid shape, data type, or offset"),
        (one("[2,2]", "[4,20]"), 20, "invalid offset for tensor `w`"),
        (one("[4294967296,4294967296,4]", "[0,16]"), 16, "overflow"),
        (one("[134217729,0]", "[0,0]"), 0, "134217729 rows are more than 134217728"),
        (one("[2,2]", "[0,16]").replace("F32", "F33"), 16, "the header is wrong: "),
    ] {
        let refused = refusal(&header, &vec![0; data]);
        assert!(refused.starts_with("w.safetensors: ") && refused.contains(said), "{header}: {refused}");
    }
}

#[test]
fn wrong_blocks_are_refused_with_the_fact() {
    let bytes = &*VALID;
    assert!(parse(bytes, None).is_ok());
    let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header = std::str::from_utf8(&bytes[8..8 + length]).unwrap();
    let data = &bytes[8 + length..];
    for (from, to, said) in [
        ("\"shape\":\"10x9\"", "\"shapes\":\"10x9\"", "the metadata has no shape"),
        ("\"shape\":\"10x9\"", "\"shape\":\"ten\"", "shape is `ten`"),
        ("\"shape\":\"10x9\"", "\"shape\":\"14x9\"", "crow_indices: 4 entries, but 4 rows take 4 + 1 = 5"),
        ("\"shape\":\"10x9\"", "\"shape\":\"10x1\"", "not in 0..1"),
        ("\"shape\":\"10x9\"", "\"shape\":\"999999999x9\"", "999999999 rows are more than"),
        ("\"shape\":\"10x9\"", "\"shape\":\"9x9\"", "set it to zero"),
        ("\"block\":\"4x2\"", "\"block\":\"2x4\"", "values has shape"),
        ("\"block\":\"4x2\"", "\"block\":\"18446744073709551615x0\"", "values has shape"),
        ("\"crow_indices\"", "\"rows_indices\"", "there is no tensor `crow_indices`"),
    ] {
        assert!(header.contains(from), "{header}");
        let refused = refusal(&header.replace(from, to), data);
        assert!(refused.contains(said), "{to}: {refused}");
    }
    // The order comes first: it is the widest.
    assert!(header.contains("\"row_permutation\":{\"data_offsets\":[0,80]"), "{header}");
    let mut twice = data.to_vec();
    twice[..8].copy_from_slice(&8i64.to_le_bytes());
    assert!(refusal(header, &twice).contains("row_permutation: positions 0 and 1 both name row 8"));
    twice[..8].copy_from_slice(&i64::MIN.to_le_bytes());
    assert!(refusal(header, &twice).contains("row_permutation: position 0 names row -9223372036854775808"));
}

proptest! {
    #[test]
    fn altered_files_are_answered(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>(), truncate in any::<bool>()) {
        let mut bytes = VALID.clone();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if truncate {
            bytes.truncate(cut.index(bytes.len()));
        }
        match parse(&bytes, None) {
            Ok(sparse) => {
                let _ = sparse.to_bsr::<f32>((3, 5)).map(|(a, _)| a.to_dense(Layout::RowMajor));
            }
            Err(error) => prop_assert!(error.to_string().starts_with("w.safetensors: ")),
        }
    }
}
