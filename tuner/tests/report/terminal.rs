//! What a terminal says.

use bsr_codegen::KernelSpec;
use bsr_tuner::report::{attribute_line, top};
use bsr_tuner::{DeviceKind, Record};

use crate::sample::sample;

#[test]
fn the_top_ten_are_in_order_and_belong_to_one_product_and_device() {
    let tops = top(&sample().records, 10);
    assert_eq!(tops.len(), 6);
    for top in &tops {
        assert_eq!(top.rows.len(), 10);
        assert_eq!(top.warning.is_some(), top.device.kind != DeviceKind::Gpu);
        let rates: Vec<f64> = top.rows.iter().map(|row| row[2].parse().unwrap()).collect();
        assert!(rates.windows(2).all(|pair| pair[0] + 2.0 >= pair[1]), "{rates:?}");
        assert!(top.rows[0][5].starts_with("bn = "), "{:?}", top.rows[0]);
    }
}

#[test]
fn records_survive_lines_of_json() {
    for record in sample().records {
        let line = serde_json::to_string(&record).unwrap();
        assert!(!line.contains('\n'));
        let read: Record = serde_json::from_str(&line).unwrap();
        // A number is read to its last bit but one, so times and features are compared by what follows of them.
        let digits = |record: &Record| record.tflops().map(|rate| format!("{rate:.12e}"));
        assert_eq!(digits(&read), digits(&record));
        let rest = |record: &Record| {
            (
                record.problem.workload.clone(),
                record.problem.key(),
                record.subject.clone(),
                record.verdict,
                record.device.clone(),
            )
        };
        assert_eq!(rest(&read), rest(&record));
        assert_eq!((read.at, read.error, read.baseline), (record.at, record.error, record.baseline));
    }
}

#[test]
fn an_attribute_line_holds_the_spec_that_it_was_made_of() {
    for text in [
        "bm = 512, bn = 128, bk = 112, stages = 3",
        "bm = 128, bn = 256, bk = 64, dtype = bf16, epilogue = \"|bias: Rows<f32>| relu(acc + bias)\"",
        "bm = 64, bn = 64, bk = 32, mma = wmma, warps = (2, 2)",
    ] {
        let spec: KernelSpec = text.parse().unwrap_or_else(|errors| panic!("{text}: {errors}"));
        let line = attribute_line(&spec);
        let inside = line.strip_prefix("#[bsr_kernel(").and_then(|rest| rest.strip_suffix(")]")).unwrap();
        assert_eq!(inside.parse::<KernelSpec>().unwrap(), spec);
    }
}
