//! The page of raw counters: one launch, a column each.

use std::collections::BTreeMap;

use bsr::roofs::{Limit, Roofs, Traffic};

use super::table::{self, number};

/// The counters of one launch by their names, in base units.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counters(BTreeMap<String, f64>);

/// Samples of warps by what they waited for.
const STALLS: &str = "smsp__pcsamp_warps_issue_stalled_";

impl Counters {
    /// Reads `ncu --page raw --csv`: the heading, a row of units, a row for each launch. The last launch counts.
    ///
    /// # Errors
    /// In words: text that is no such page, or a report of no launch.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let csv = table::read(text, &["ID"])?;
        let [units, .., launch] = &csv.rows[..] else { return Err("it has no launch".to_owned()) };
        let values = csv.head.iter().zip(units).zip(launch).filter_map(|((name, unit), value)| {
            let value = number(value)?;
            let scale = if name.ends_with("time_duration.sum") { microseconds(unit)? } else { 1.0 };
            Some((name.clone(), value * scale))
        });
        Ok(Self(values.collect()))
    }

    fn value(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// Microseconds of the launch.
    pub(super) fn us(&self) -> Option<f64> {
        self.value("gpu__time_duration.sum")
    }

    /// MHz of the SMs, and of the memory.
    pub(super) fn clocks(&self) -> [Option<f64>; 2] {
        ["sm__cycles_elapsed.avg.per_second", "dram__cycles_elapsed.avg.per_second"]
            .map(|name| self.value(name).map(|hz| hz / 1e6))
    }

    /// Bytes through L2, read from device memory and written to it.
    pub(super) fn bytes(&self) -> [Option<f64>; 3] {
        ["lts__t_bytes.sum", "dram__bytes_read.sum", "dram__bytes_write.sum"].map(|name| self.value(name))
    }

    /// Part of the cycles in which the tensor cores worked, in percent: the largest of what is told of their pipes, on average
    /// over the multiprocessors.
    pub(super) fn tensor_percent(&self) -> Option<f64> {
        let is_pipe = |name: &str| name.contains("pipe_tensor") && name.contains(".avg.pct_of_peak_sustained");
        self.0.iter().filter(|(name, _)| is_pipe(name)).map(|(_, value)| *value).max_by(f64::total_cmp)
    }

    /// What warps waited for, with samples, most first. `selected` is a warp that issued.
    pub(super) fn stalls(&self) -> Vec<(String, f64)> {
        let of = |(name, value): (&String, &f64)| {
            let reason = name.strip_prefix(STALLS)?.split('.').next()?;
            (!reason.ends_with("_not_issued") && *value > 0.0).then(|| (reason.to_owned(), *value))
        };
        let mut stalls: Vec<(String, f64)> = self.0.iter().filter_map(of).collect();
        stalls.sort_by(|x, y| y.1.total_cmp(&x.1));
        stalls
    }

    /// The launch under the roofs, with the bytes of device memory that were counted in place of the model's.
    pub(super) fn place(&self, traffic: Traffic, roofs: &Roofs) -> Option<Limit> {
        let [_, read, written] = self.bytes();
        let counted = Traffic {
            hbm_read: read.unwrap_or(traffic.hbm_read),
            hbm_written: written.unwrap_or(traffic.hbm_written),
            ..traffic
        };
        Limit::new(counted, self.us()?, roofs)
    }
}

/// Microseconds of one of ncu's units of time.
fn microseconds(unit: &str) -> Option<f64> {
    match unit {
        "ns" | "nsecond" => Some(1e-3),
        "us" | "usecond" => Some(1.0),
        "ms" | "msecond" => Some(1e3),
        "s" | "second" => Some(1e6),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// In ncu's form, with invented numbers.
    pub(in super::super) const RAW: &str = r#"==PROF== Disconnected from process 4711
"ID","Process ID","Kernel Name","dram__bytes_read.sum","dram__bytes_write.sum","dram__cycles_elapsed.avg.per_second","gpu__time_duration.sum","lts__t_bytes.sum","sm__cycles_elapsed.avg.per_second","sm__pipe_tensor_op_gmma_cycles_active.avg.pct_of_peak_sustained_active","sm__pipe_tensor_op_imma_cycles_active.avg.pct_of_peak_sustained_active","smsp__pcsamp_warps_issue_stalled_barrier","smsp__pcsamp_warps_issue_stalled_gmma","smsp__pcsamp_warps_issue_stalled_gmma_not_issued","smsp__pcsamp_warps_issue_stalled_long_scoreboard"
"","","","byte","byte","hz","ns","byte","hz","%","%","","","",""
"0","4711","bsr_dsd_wgmma_f16_512x128x112","300,000,000","134,217,728","3,201,000,000.00","380,100","1,610,612,736","1,485,000,000.00","91.5","0","120","4,000","3,900","40"
"#;

    #[test]
    fn a_launch_is_read_in_base_units() {
        let counters = Counters::read(RAW).unwrap();
        assert_eq!((counters.us(), counters.clocks()), (Some(380.1), [Some(1485.0), Some(3201.0)]));
        assert_eq!(counters.bytes(), [Some(1_610_612_736.0), Some(3e8), Some(134_217_728.0)]);
        assert_eq!(counters.tensor_percent(), Some(91.5));
        let stalls: Vec<(String, f64)> = counters.stalls();
        let stalls: Vec<(&str, f64)> = stalls.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(stalls, [("gmma", 4000.0), ("barrier", 120.0), ("long_scoreboard", 40.0)]);
    }

    #[test]
    fn counted_bytes_take_the_place_of_the_models() {
        let traffic = Traffic {
            dtype: bsr::Dtype::F16,
            tf32: false,
            flops: 1e9,
            issued_flops: 1e9,
            l2_bytes: 1e6,
            stages: 1.0,
            hbm_least: 1e6,
            hbm_read: 5e6,
            hbm_written: 5e6,
        };
        let limit = Counters::read(RAW).unwrap().place(traffic, &Roofs::new("NVIDIA H200", None)).unwrap();
        assert_eq!((limit.us, limit.traffic.hbm_read, limit.traffic.hbm_written), (380.1, 3e8, 134_217_728.0));
        assert_eq!(Counters::default().place(traffic, &Roofs::new("NVIDIA H200", None)), None);
    }

    #[test]
    fn what_is_no_page_is_refused_in_words() {
        assert!(Counters::read("==ERROR== nothing").unwrap_err().contains("\"ID\""));
        assert!(Counters::read("\"ID\",\"x\"\n\"\",\"byte\"\n").unwrap_err().contains("no launch"));
    }
}
