//! Which roof limits a kernel: what its plan computes and moves, over what the card lets through, against the time it took.

use std::fmt;

use bsr_codegen::Dtype;
use serde::{Deserialize, Serialize};

use super::{Origin, Rate, Roofs};

/// What one launch computes and moves, by its plan. Bytes are counted where they are asked for: what the CTAs of a cluster
/// share counts once from L2.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// Type of the operands.
    pub dtype: Dtype,
    /// They are rounded to TF32.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tf32: bool,
    /// Operations on stored blocks.
    pub flops: f64,
    /// Operations of all instructions: those on padding included.
    pub issued_flops: f64,
    /// Bytes from L2 to the SMs.
    pub l2_bytes: f64,
    /// Pipeline stages of all CTAs in which they come; 0 where there is no ring.
    pub stages: f64,
    /// Bytes that must cross device memory at least once, those of the result included.
    pub hbm_least: f64,
    /// Bytes that are read from device memory, as the cost model's footprint of L2 has it.
    pub hbm_read: f64,
    /// Bytes that are written to it.
    pub hbm_written: f64,
}

/// One of the roofs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitedBy {
    /// Tensor cores, or the CUDA cores for f32.
    Tensor,
    /// L2 to shared memory.
    L2,
    /// Device memory.
    Hbm,
    /// The launch.
    Launch,
}

impl LimitedBy {
    /// In words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tensor => "tensor cores",
            Self::L2 => "L2 to shared memory",
            Self::Hbm => "device memory",
            Self::Launch => "launch",
        }
    }
}

/// A time under one roof.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Placed {
    /// The roof.
    pub by: LimitedBy,
    /// Microseconds that the work takes at the roof.
    pub us: f64,
    /// These over the measured ones: 1 at the roof.
    pub share: f64,
    /// The rate that was reached: TB/s, TFLOP/s; microseconds of the launch.
    pub reached: f64,
    /// The roof in the same unit. That of device memory is between those of reading and of copying.
    pub roof: f64,
    /// Where the roof is from.
    pub origin: Origin,
}

/// A kernel's time under all roofs that are known, the nearest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Microseconds that were measured.
    pub us: f64,
    /// What was computed and moved.
    pub traffic: Traffic,
    /// The roofs, the one with the largest share first; never empty.
    pub roofs: Vec<Placed>,
}

/// A roof that explains less of the time than this limits nothing: waiting does.
const LIMITS: f64 = 0.6;

impl Limit {
    /// Places a time; none without a time or a roof.
    pub fn new(traffic: Traffic, us: f64, roofs: &Roofs) -> Option<Self> {
        if !us.is_finite() || us <= 0.0 {
            return None;
        }
        let placed = |by, amount: f64, roof: Option<Rate>, scale: f64| {
            let Rate { value, origin } = roof.filter(|roof| roof.value > 0.0 && amount > 0.0)?;
            let at_roof = amount / value / scale;
            Some(Placed { by, us: at_roof, share: at_roof / us, reached: amount / us / scale, roof: value, origin })
        };
        let launch = roofs.launch_us.map(|Rate { value, origin }| Placed {
            by: LimitedBy::Launch,
            us: value,
            share: value / us,
            reached: us,
            roof: value,
            origin,
        });
        let bytes = traffic.hbm_read + traffic.hbm_written;
        let tensor = if traffic.tf32 { roofs.tf32() } else { roofs.tensor(traffic.dtype) };
        let found = [
            placed(LimitedBy::Tensor, traffic.issued_flops, tensor, 1e6),
            placed(LimitedBy::L2, traffic.l2_bytes, roofs.l2, 1e6),
            placed(LimitedBy::Hbm, bytes, memory(&traffic, roofs), 1e6),
            launch,
        ];
        let mut roofs: Vec<Placed> = found.into_iter().flatten().collect();
        roofs.sort_by(|x, y| y.share.total_cmp(&x.share));
        (!roofs.is_empty()).then_some(Self { us, traffic, roofs })
    }

    /// The nearest roof.
    pub fn nearest(&self) -> &Placed {
        &self.roofs[0]
    }

    /// What limits; none where no roof explains most of the time.
    pub fn by(&self) -> Option<LimitedBy> {
        let nearest = self.nearest();
        (nearest.share >= LIMITS).then_some(nearest.by)
    }

    /// A line of arithmetic: what the nearest roof lets through, and what is left.
    pub fn arithmetic(&self) -> String {
        let nearest = self.nearest();
        let amount = self.amount(nearest.by);
        let sheet = sheet_mark(nearest.origin);
        let rate = match nearest.by {
            LimitedBy::Launch => format!("{:.1} of {:.1} us{sheet}", nearest.us, self.us),
            by => format!(
                "{amount}, {} of {} {}{sheet}",
                number(nearest.reached),
                number(nearest.roof),
                unit(by, &self.traffic)
            ),
        };
        let percent = 100.0 * nearest.share;
        let words = nearest.by.as_str();
        match self.by() {
            Some(_) if nearest.share >= 1.0 => format!("{words}: {rate}: at the roof"),
            Some(_) => {
                let left = self.us - nearest.us;
                format!("{words}: {rate} ({percent:.0} %); {left:.1} of {:.1} us are left", self.us)
            }
            None if nearest.origin == Origin::DataSheet => {
                format!("no roof that is known: the nearest is {words}, {rate} ({percent:.0} %)")
            }
            None => format!(
                "no roof: the nearest is {words}, {rate} ({percent:.0} %); the rest is latency, barriers or uneven work"
            ),
        }
    }

    /// The other roofs in a line; empty where there is no other.
    pub fn others(&self) -> String {
        let of = |placed: &Placed| {
            format!("{} {:.0} %{}", placed.by.as_str(), 100.0 * placed.share, sheet_mark(placed.origin))
        };
        let mut words: Vec<String> = self.roofs[1..].iter().map(of).collect();
        let Traffic { flops, issued_flops, .. } = self.traffic;
        if issued_flops > 1.01 * flops && flops > 0.0 {
            words.push(format!("{:.0} % of the operations are padding", 100.0 * (1.0 - flops / issued_flops)));
        }
        words.join(", ")
    }

    /// What passes a roof, with how it comes about.
    fn amount(&self, by: LimitedBy) -> String {
        let traffic = &self.traffic;
        match by {
            LimitedBy::Tensor => format!("{} GFLOP", number(traffic.issued_flops / 1e9)),
            LimitedBy::L2 if traffic.stages >= 1.0 => {
                let each = traffic.l2_bytes / traffic.stages;
                format!("{} a stage x {:.0} stages = {}", bytes(each), traffic.stages, bytes(traffic.l2_bytes))
            }
            LimitedBy::L2 => bytes(traffic.l2_bytes),
            LimitedBy::Hbm => {
                let all = traffic.hbm_read + traffic.hbm_written;
                format!("{} ({} must move at least)", bytes(all), bytes(traffic.hbm_least))
            }
            LimitedBy::Launch => String::new(),
        }
    }
}

impl fmt::Display for Limit {
    /// The arithmetic, and the other roofs in a second line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let others = self.others();
        f.write_str(&self.arithmetic())?;
        if others.is_empty() { Ok(()) } else { write!(f, "\n{others}") }
    }
}

/// What device memory lets through of these reads and writes: as much of both is a copy, and the rest is read, or written at
/// the rate of a copy.
fn memory(traffic: &Traffic, roofs: &Roofs) -> Option<Rate> {
    let (read, copy) = (roofs.hbm_read?, roofs.hbm_copy?);
    let (reads, writes) = (traffic.hbm_read, traffic.hbm_written);
    let copied = 2.0 * reads.min(writes) + (writes - reads).max(0.0);
    let time = copied / copy.value + (reads - writes).max(0.0) / read.value;
    (time > 0.0).then(|| Rate { value: (reads + writes) / time, origin: read.origin })
}

fn sheet_mark(origin: Origin) -> &'static str {
    match origin {
        Origin::Measured => "",
        Origin::DataSheet => " by the data sheet",
    }
}

fn unit(by: LimitedBy, traffic: &Traffic) -> &'static str {
    match by {
        LimitedBy::Tensor if traffic.dtype == Dtype::I8 => "TOP/s",
        LimitedBy::Tensor => "TFLOP/s",
        LimitedBy::L2 | LimitedBy::Hbm => "TB/s",
        LimitedBy::Launch => "us",
    }
}

/// Three digits: `640`, `36.0`, `7.81`.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Bytes: KB and up are powers of 1000, as rates are.
fn bytes(value: f64) -> String {
    for (unit, size) in [("GB", 1e9), ("MB", 1e6), ("KB", 1e3)] {
        if value >= size {
            return format!("{} {unit}", number(value / size));
        }
    }
    format!("{value:.0} B")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::tests::measured;
    use super::*;

    const TRAFFIC: Traffic = Traffic {
        dtype: Dtype::F16,
        tf32: false,
        flops: 70e9,
        issued_flops: 70e9,
        l2_bytes: 1.44e9,
        stages: 40_000.0,
        hbm_least: 100e6,
        hbm_read: 300e6,
        hbm_written: 100e6,
    };

    fn roofs() -> Roofs {
        Roofs::new("NVIDIA H200", Some(&measured()))
    }

    #[test]
    fn the_nearest_roof_is_told_with_its_arithmetic() {
        // At the roofs: 100 us of tensor cores, 160 us of L2, 94.4 us of memory, 5 us of a launch.
        let limit = Limit::new(TRAFFIC, 200.0, &roofs()).unwrap();
        let order: Vec<LimitedBy> = limit.roofs.iter().map(|placed| placed.by).collect();
        assert_eq!(order, [LimitedBy::L2, LimitedBy::Tensor, LimitedBy::Hbm, LimitedBy::Launch]);
        assert_eq!(limit.by(), Some(LimitedBy::L2));
        assert_eq!(
            limit.arithmetic(),
            "L2 to shared memory: 36.0 KB a stage x 40000 stages = 1.44 GB, 7.20 of 9.00 TB/s (80 %); 40.0 of 200.0 us are left"
        );
        assert_eq!(limit.others(), "tensor cores 50 %, device memory 47 %, launch 2 %");
    }

    #[test]
    fn memory_is_between_reading_and_copying() {
        // 100 MB are copied at 4 TB/s, both ways: 50 us. 200 MB are read besides at 4.5 TB/s: 44.4 us.
        let limit = Limit::new(TRAFFIC, 200.0, &roofs()).unwrap();
        let memory = limit.roofs.iter().find(|placed| placed.by == LimitedBy::Hbm).unwrap();
        assert!((memory.us - 94.444).abs() < 0.01 && (memory.reached - 2.0).abs() < 1e-9, "{memory:?}");
        let writes = Traffic { hbm_read: 0.0, ..TRAFFIC };
        let limit = Limit::new(writes, 200.0, &roofs()).unwrap();
        let memory = limit.roofs.iter().find(|placed| placed.by == LimitedBy::Hbm).unwrap();
        assert!((memory.roof - 4.0).abs() < 1e-9, "{memory:?}");
    }

    #[test]
    fn tf32_has_half_of_the_roof_of_f16() {
        let of = |traffic| Limit::new(traffic, 200.0, &roofs()).unwrap();
        let tensor = |limit: Limit| limit.roofs.into_iter().find(|placed| placed.by == LimitedBy::Tensor).unwrap();
        let [f16, tf32] =
            [TRAFFIC, Traffic { dtype: Dtype::F32, tf32: true, ..TRAFFIC }].map(|traffic| tensor(of(traffic)));
        assert_eq!((tf32.roof, tf32.share), (f16.roof / 2.0, 2.0 * f16.share));
    }

    #[test]
    fn where_no_roof_is_near_nothing_is_said_to_limit() {
        let limit = Limit::new(TRAFFIC, 1000.0, &roofs()).unwrap();
        assert_eq!(limit.by(), None);
        assert!(limit.arithmetic().starts_with("no roof: the nearest is L2 to shared memory"), "{limit}");
        let short =
            Traffic { l2_bytes: 1e6, flops: 1e6, issued_flops: 1e6, hbm_read: 1e5, hbm_written: 1e5, ..TRAFFIC };
        let limit = Limit::new(short, 6.0, &roofs()).unwrap();
        assert_eq!(limit.by(), Some(LimitedBy::Launch));
        assert_eq!(limit.arithmetic(), "launch: 5.0 of 6.0 us (83 %); 1.0 of 6.0 us are left");
    }

    #[test]
    fn the_data_sheet_is_named_and_padding_too() {
        let padded = Traffic { flops: 60e9, issued_flops: 80e9, l2_bytes: 0.0, hbm_read: 200e6, ..TRAFFIC };
        let limit = Limit::new(padded, 100.0, &Roofs::new("NVIDIA H200", None)).unwrap();
        assert_eq!(limit.roofs.len(), 2);
        assert!(limit.arithmetic().contains("of 990 TFLOP/s by the data sheet (81 %)"), "{limit}");
        assert!(limit.others().contains("25 % of the operations are padding"), "{limit}");
        assert_eq!(Limit::new(padded, 100.0, &Roofs::new("unknown", None)), None);
        assert_eq!(Limit::new(padded, 0.0, &roofs()), None);
    }

    #[test]
    fn it_survives_json() {
        let limit = Limit::new(TRAFFIC, 200.0, &roofs()).unwrap();
        let text = serde_json::to_string(&limit).unwrap();
        assert!(text.contains(r#""by":"l2""#) && text.contains(r#""origin":"measured""#), "{text}");
        assert_eq!(serde_json::from_str::<Limit>(&text).unwrap(), limit);
    }
}
