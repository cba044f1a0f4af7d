//! The record of one measurement, as JSON.

use serde::{Deserialize, Serialize};

use super::power::Power;
use super::timing::{TimeUs, Timing, tflops};
use super::work::Work;
use crate::roofs::Limit;

/// One measurement of one kernel on one problem, beside the dense library in the same run.
///
/// This is the stable schema of `bsr bench --json`, version 1. Fields are added, never changed or removed,
/// without a new version. The form, with invented numbers:
///
/// ```json
/// {
///   "schema": 1,
///   "spec": "bm = 512, bn = 128, bk = 112",
///   "problem": {
///     "m": 8192, "n": 8192, "k": 8288, "block": [512, 112],
///     "pattern": "topk:16", "seed": 0, "nnzb": 256
///   },
///   "plan": "9f2c...",
///   "ptx": "41d8...",
///   "gpu": "NVIDIA H200",
///   "driver": "580.159.03 (CUDA 13.0)",
///   "version": "0.1.0",
///   "executed_flops": 240518168576,
///   "l2": "clean",
///   "time_us": { "median": 380.1, "p10": 378.9, "p90": 383.0, "min": 377.2, "samples": 40 },
///   "tflops": 632.8,
///   "dense": {
///     "time_us": { "median": 365.0, "p10": 364.1, "p90": 368.2, "min": 363.0, "samples": 40 },
///     "tflops": 658.9, "k_equal": 1792, "algo": "id 66, tile 20, stages 36, cluster 3, split_k 1"
///   },
///   "ratio": 0.960,
///   "ratio_paired": 0.961,
///   "relative_error": 0.00021,
///   "hbm_gbs": 787.0,
///   "checked": true,
///   "limit": null,
///   "power": null
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BenchRecord {
    /// Version of this schema: 1.
    pub schema: u32,
    /// The spec in its canonical text.
    pub spec: String,
    /// What was multiplied.
    pub problem: ProblemRecord,
    /// Digest of the plan.
    pub plan: String,
    /// Fingerprint of the PTX text.
    pub ptx: String,
    /// The GPU's name.
    pub gpu: String,
    /// The driver, see [`DeviceInfo::driver`](crate::gpu::DeviceInfo::driver).
    pub driver: String,
    /// Version of this project.
    pub version: String,
    /// `2 * nnzb * bm * bk * n`.
    pub executed_flops: u64,
    /// How the L2 cache was before every launch. Records that do not say it are of [`L2Before::Written`].
    #[serde(default)]
    pub l2: L2Before,
    /// GPU time of one launch from a cold L2 cache, in microseconds.
    pub time_us: TimeUs,
    /// Executed operations over the median time, in TFLOP/s.
    pub tflops: f64,
    /// The dense library on equal work in the same run; `null` if it was not timed.
    pub dense: Option<DenseRecord>,
    /// `tflops / dense.tflops`; `null` without `dense`.
    pub ratio: Option<f64>,
    /// The same ratio as the median over rounds, in which both ran one after the other; `null` without
    /// `dense`.
    pub ratio_paired: Option<f64>,
    /// `|C - reference| / |reference|` in the Frobenius norm; `null` if it was not compared.
    pub relative_error: Option<f64>,
    /// Bytes that must move at least once, over the median time, in GB/s.
    pub hbm_gbs: f64,
    /// Whether the result was compared with the reference and found right.
    pub checked: bool,
    /// The time under the roofs of this GPU; `null` where none is known. Older records do not have it.
    #[serde(default)]
    pub limit: Option<Limit>,
    /// How the GPU ran meanwhile; `null` where the driver does not tell. Older records do not have it.
    #[serde(default)]
    pub power: Option<Power>,
}

/// How the L2 cache was when a timed launch began: cold in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum L2Before {
    /// Overwritten, and full of lines that the launch had to write back first.
    #[default]
    Written,
    /// Overwritten and then read through, so that nothing was to be written back.
    Clean,
}

/// What was multiplied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemRecord {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A, rows of B.
    pub k: usize,
    /// Rows and columns of a block.
    pub block: (usize, usize),
    /// The pattern's text, or the name of the file.
    pub pattern: String,
    /// Seed of pattern and values.
    pub seed: u64,
    /// Stored blocks.
    pub nnzb: usize,
}

/// The dense library on M x N x `k_equal`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DenseRecord {
    /// GPU time of one product from a cold L2 cache, in microseconds.
    pub time_us: TimeUs,
    /// `2 * m * n * k_equal` over the median time, in TFLOP/s.
    pub tflops: f64,
    /// The K of equal work, see [`Work::equal_dense_k`].
    pub k_equal: usize,
    /// The algorithm in the library's numbers.
    pub algo: String,
}

/// What a record says of the kernel that was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The spec in its canonical text.
    pub spec: String,
    /// The pattern's text, or the name of the file.
    pub pattern: String,
    /// Seed of pattern and values.
    pub seed: u64,
    /// Digest of the plan.
    pub plan: String,
    /// Fingerprint of the PTX text.
    pub ptx: String,
    /// The GPU's name.
    pub gpu: String,
    /// The driver.
    pub driver: String,
}

/// A text that is not a record this program can read.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// Not the JSON of a record.
    #[error("not a bench record: {0}")]
    Json(#[from] serde_json::Error),
    /// A record of another version.
    #[error(
        "a bench record of schema {found}; this program reads schema {}\n  help: read it with the version of the program that wrote it",
        BenchRecord::SCHEMA
    )]
    Schema {
        /// Its version.
        found: u32,
    },
}

bsr_codegen::message_as_debug!(ReportError);

impl BenchRecord {
    /// The version this program writes and reads.
    pub const SCHEMA: u32 = 1;

    /// Puts a record together. `dense` is the dense library's timing, its equal K and its algorithm, taken in
    /// the same [`interleave`](super::interleave) as `timing`; `relative_error` and `checked` are what the
    /// comparison with the reference gave. Limit and power are for the caller to fill in.
    pub fn new(
        subject: Subject,
        work: &Work,
        timing: &Timing,
        dense: Option<(&Timing, usize, String)>,
        relative_error: Option<f64>,
        checked: bool,
    ) -> Self {
        let flops = work.executed_flops();
        let time_us = timing.summary();
        let ours = tflops(flops, time_us.median);
        let columns = work.equal_dense().map_or(work.n, |[_, n, _]| n);
        let dense_flops = |k: usize| 2 * work.m as u64 * columns as u64 * k as u64;
        // Equal work is equal up to the rounding of K, so a ratio of times is corrected by that of the work.
        let paired = dense.as_ref().and_then(|(theirs, k, _)| {
            let times = theirs.paired_ratio(timing)?;
            Some(times * flops as f64 / dense_flops(*k) as f64)
        });
        let dense = dense.map(|(timing, k_equal, algo)| DenseRecord {
            time_us: timing.summary(),
            tflops: timing.tflops(dense_flops(k_equal)),
            k_equal,
            algo,
        });
        Self {
            schema: Self::SCHEMA,
            spec: subject.spec,
            problem: ProblemRecord {
                m: work.m,
                n: work.n,
                k: work.k,
                block: work.block,
                pattern: subject.pattern,
                seed: subject.seed,
                nnzb: work.nnzb,
            },
            plan: subject.plan,
            ptx: subject.ptx,
            gpu: subject.gpu,
            driver: subject.driver,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            executed_flops: flops,
            l2: L2Before::Clean,
            time_us,
            tflops: ours,
            ratio: dense.as_ref().filter(|d| d.tflops > 0.0).map(|d| ours / d.tflops),
            ratio_paired: paired,
            dense,
            relative_error,
            hbm_gbs: work.hbm_gbs(time_us.median),
            checked,
            limit: None,
            power: None,
        }
    }

    /// The record as one line of JSON.
    ///
    /// # Errors
    /// None that a record can cause; the signature is that of the JSON library.
    pub fn to_json(&self) -> Result<String, ReportError> {
        Ok(serde_json::to_string(self)?)
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`ReportError::Schema`] for a record of another version, [`ReportError::Json`] for anything else.
    pub fn from_json(text: &str) -> Result<Self, ReportError> {
        #[derive(Deserialize)]
        struct Version {
            schema: u32,
        }
        let Version { schema } = serde_json::from_str(text)?;
        if schema != Self::SCHEMA {
            return Err(ReportError::Schema { found: schema });
        }
        Ok(serde_json::from_str(text)?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use bsr_codegen::{Dtype, Op, Switch};

    use super::*;

    fn record() -> BenchRecord {
        let work = Work {
            op: Op::Dsd,
            transpose: Switch::Off,
            m: 192,
            n: 1000,
            k: 512,
            block: (64, 64),
            nnzb: 4,
            products: None,
            a: Dtype::F16,
            b: Dtype::F16,
            out: Dtype::F32,
        };
        let subject = Subject {
            spec: "bm = 64, bn = 128, bk = 64".into(),
            pattern: "random:0.25".into(),
            seed: 3,
            plan: "0123".into(),
            ptx: "4567".into(),
            gpu: "NVIDIA H200".into(),
            driver: "580.159.03 (CUDA 13.0)".into(),
        };
        let ours = Timing { name: "bsr".into(), samples_us: vec![10.0, 20.0, 30.0] };
        let theirs = Timing { name: "dense".into(), samples_us: vec![9.0, 18.0, 27.0] };
        let k = work.equal_dense_k().unwrap();
        BenchRecord::new(subject, &work, &ours, Some((&theirs, k, "id 66".into())), Some(2e-4), true)
    }

    #[test]
    fn the_numbers_follow_from_each_other() {
        let record = record();
        assert_eq!(record.executed_flops, 2 * 4 * 64 * 64 * 1000);
        assert!((record.tflops - 32.768e6 / 20.0 / 1e6).abs() < 1e-12);
        let dense = record.dense.as_ref().unwrap();
        // 85.33 executed elements a row round to 88.
        assert_eq!(dense.k_equal, 88);
        assert!((dense.tflops - 2.0 * 192.0 * 1000.0 * 88.0 / 18.0 / 1e6).abs() < 1e-12);
        let ratio = record.ratio.unwrap();
        assert!((ratio - record.tflops / dense.tflops).abs() < 1e-12);
        // The drift of both is the same, so pairing changes nothing here.
        assert!((record.ratio_paired.unwrap() - ratio).abs() < 1e-12);
    }

    #[test]
    fn a_record_survives_json() {
        let record = record();
        let text = record.to_json().unwrap();
        assert!(!text.contains('\n'));
        assert_eq!(BenchRecord::from_json(&text).unwrap(), record);
    }

    #[test]
    fn records_from_before_limits_and_power_are_read() {
        let record = record();
        let older = record.to_json().unwrap().replace(r#","limit":null,"power":null"#, "");
        assert!(!older.contains("limit"), "{older}");
        assert_eq!(BenchRecord::from_json(&older).unwrap(), record);
    }

    #[test]
    fn the_schema_has_the_documented_fields() {
        let value: serde_json::Value = serde_json::from_str(&record().to_json().unwrap()).unwrap();
        let keys = |value: &serde_json::Value| {
            let mut keys: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
            keys.sort();
            keys.join(" ")
        };
        assert_eq!(
            keys(&value),
            "checked dense driver executed_flops gpu hbm_gbs l2 limit plan power problem ptx ratio ratio_paired \
             relative_error schema spec tflops time_us version"
        );
        assert_eq!(keys(&value["problem"]), "block k m n nnzb pattern seed");
        assert_eq!(keys(&value["time_us"]), "median min p10 p90 samples");
        assert_eq!(keys(&value["dense"]), "algo k_equal tflops time_us");
        assert_eq!(value["schema"], 1);
        assert_eq!(value["problem"]["block"], serde_json::json!([64, 64]));
    }

    #[test]
    fn other_versions_and_other_texts_are_refused_in_words() {
        let newer = record().to_json().unwrap().replacen("\"schema\":1", "\"schema\":2", 1);
        let error = BenchRecord::from_json(&newer).unwrap_err().to_string();
        assert!(error.contains("schema 2; this program reads schema 1"), "{error}");
        assert!(matches!(BenchRecord::from_json("{}"), Err(ReportError::Json(_))));
        assert!(BenchRecord::from_json("not json").is_err());
    }

    #[test]
    fn a_record_without_the_dense_library_says_null() {
        let mut record = record();
        record.dense = None;
        record.ratio = None;
        let value: serde_json::Value = serde_json::from_str(&record.to_json().unwrap()).unwrap();
        assert!(value["dense"].is_null() && value["ratio"].is_null());
    }
}
