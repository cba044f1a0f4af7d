//! Power and clocks of a GPU while something is measured on it.
//!
//! A card under load is limited by its power: two kernels of equal cycles differ in time where one of them draws more. What
//! the driver tells is looked at in a thread of its own, and nothing is set.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::gpu::Device;
use crate::gpu::nvml::{Look, Managed};

/// How a GPU ran during a measurement, over all of its candidates together. None of what the driver does not tell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Power {
    /// The mean power in watts: energy over time where the driver counts it, else the mean of what it told.
    pub watts: Option<f64>,
    /// The power that the card may draw.
    pub limit_watts: Option<f64>,
    /// The SMs' clock in MHz.
    pub sm_mhz: Option<Clock>,
    /// The memory's clock in MHz.
    pub memory_mhz: Option<u32>,
    /// Why the clock was below its highest, in the driver's words, most frequent first.
    pub reasons: Vec<String>,
    /// How often the driver was asked.
    pub samples: usize,
}

/// A clock over a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// The lowest.
    pub min: u32,
    /// The middle one.
    pub median: u32,
    /// The highest.
    pub max: u32,
}

/// Bits of `nvmlClocksEventReasons` that say that something holds the clock down.
const REASONS: [(u64, &str); 7] = [
    (0x2, "clocks set by an application"),
    (0x4, "power"),
    (0x8, "hardware slowdown"),
    (0x10, "synchronized boost"),
    (0x20, "temperature, by software"),
    (0x40, "temperature, by hardware"),
    (0x80, "power brake"),
];

impl Power {
    /// In a line: `688 of 700 W, SM clock 1485 MHz (1410 to 1755), memory 3201 MHz, held down by power`.
    pub fn words(&self) -> String {
        let mut words = vec![];
        match (self.watts, self.limit_watts) {
            (Some(watts), Some(limit)) => words.push(format!("{watts:.0} of {limit:.0} W")),
            (Some(watts), None) => words.push(format!("{watts:.0} W")),
            (None, _) => {}
        }
        if let Some(Clock { min, median, max }) = self.sm_mhz {
            words.push(format!("SM clock {median} MHz ({min} to {max})"));
        }
        words.extend(self.memory_mhz.map(|mhz| format!("memory {mhz} MHz")));
        if !self.reasons.is_empty() {
            words.push(format!("held down by {}", self.reasons.join(", ")));
        }
        words.join(", ")
    }

    /// Whether the GPU was looked at for half a second: what a driver tells is a mean over up to a second, and of a shorter
    /// time it is the power and the clock of what went before.
    pub fn is_settled(&self) -> bool {
        const LOOKS: usize = 25;
        self.samples >= LOOKS
    }

    /// Cycles of the SMs in so many microseconds.
    pub fn cycles(&self, us: f64) -> Option<f64> {
        Some(us * f64::from(self.sm_mhz?.median))
    }

    fn new(looks: &[Look], limit: Option<u32>, energy_mj: Option<u64>, time: Duration) -> Option<Self> {
        let mut clocks: Vec<u32> = looks.iter().filter_map(|look| look.sm_mhz).collect();
        clocks.sort_unstable();
        let mut memory: Vec<u32> = looks.iter().filter_map(|look| look.memory_mhz).collect();
        memory.sort_unstable();
        let told: Vec<f64> = looks.iter().filter_map(|look| look.milliwatts).map(|mw| f64::from(mw) / 1e3).collect();
        // The counter moves in steps of a tenth of a second.
        let long_enough = time >= Duration::from_millis(500);
        let counted = energy_mj.filter(|energy| long_enough && *energy > 0);
        let counted = counted.map(|energy| energy as f64 / 1e3 / time.as_secs_f64());
        let mean = (!told.is_empty()).then(|| told.iter().sum::<f64>() / told.len() as f64);
        let times =
            |bit: u64| looks.iter().filter(|look| look.reasons.is_some_and(|reasons| reasons & bit != 0)).count();
        let mut reasons: Vec<(usize, &str)> = REASONS.iter().map(|(bit, words)| (times(*bit), *words)).collect();
        reasons.retain(|(times, _)| *times > 0);
        reasons.sort_by_key(|(times, _)| std::cmp::Reverse(*times));
        let power = Self {
            watts: counted.or(mean),
            limit_watts: limit.map(|mw| f64::from(mw) / 1e3),
            sm_mhz: clocks.first().zip(clocks.last()).map(|(min, max)| Clock {
                min: *min,
                median: clocks[clocks.len() / 2],
                max: *max,
            }),
            memory_mhz: memory.get(memory.len() / 2).copied(),
            reasons: reasons.into_iter().map(|(_, words)| words.to_owned()).collect(),
            samples: looks.len(),
        };
        (power.watts.is_some() || power.sm_mhz.is_some()).then_some(power)
    }
}

/// Looks at a GPU until it is told to stop.
#[derive(Debug)]
pub struct PowerWatch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Option<Power>>>,
}

impl PowerWatch {
    /// Between two looks.
    const PERIOD: Duration = Duration::from_millis(20);

    /// Begins to look; at nothing where the driver has no library that tells.
    pub fn start(device: &Device) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let thread = Managed::of(device).and_then(|gpu| {
            let stop = Arc::clone(&stop);
            std::thread::Builder::new().name("power".to_owned()).spawn(move || watch(gpu, &stop)).ok()
        });
        Self { stop, thread }
    }

    /// What was seen.
    pub fn finish(mut self) -> Option<Power> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take()?.join().ok().flatten()
    }
}

impl Drop for PowerWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn watch(gpu: Managed, stop: &AtomicBool) -> Option<Power> {
    let (begun, energy, mut looks) = (Instant::now(), gpu.energy(), vec![]);
    while !stop.load(Ordering::Relaxed) {
        looks.push(gpu.look());
        std::thread::sleep(PowerWatch::PERIOD);
    }
    let used = energy.zip(gpu.energy()).and_then(|(before, after)| after.checked_sub(before));
    Power::new(&looks, gpu.limit(), used, begun.elapsed())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn look(milliwatts: u32, sm_mhz: u32, reasons: u64) -> Look {
        Look { milliwatts: Some(milliwatts), sm_mhz: Some(sm_mhz), memory_mhz: Some(3201), reasons: Some(reasons) }
    }

    #[test]
    fn a_measurement_is_told_in_a_line() {
        let looks = [look(690_000, 1500, 0x4), look(680_000, 1410, 0x44), look(700_000, 1755, 0x4)];
        let power = Power::new(&looks, Some(700_000), Some(1_376_000), Duration::from_secs(2)).unwrap();
        assert_eq!(
            power.words(),
            "688 of 700 W, SM clock 1500 MHz (1410 to 1755), memory 3201 MHz, held down by power, temperature, by hardware"
        );
        assert_eq!(power.cycles(100.0), Some(150_000.0));
        assert!(!power.is_settled() && Power { samples: 25, ..power.clone() }.is_settled());
        let text = serde_json::to_string(&power).unwrap();
        assert_eq!(serde_json::from_str::<Power>(&text).unwrap(), power);
    }

    #[test]
    fn the_energy_of_a_short_time_is_not_trusted_and_nothing_told_is_no_power() {
        let power = Power::new(&[look(600_000, 1980, 0)], None, Some(1), Duration::from_millis(30)).unwrap();
        assert_eq!((power.watts, power.reasons.len()), (Some(600.0), 0));
        assert_eq!(Power::new(&[Look::default()], Some(1), None, Duration::from_secs(2)), None);
        assert_eq!(Power::new(&[], None, None, Duration::ZERO), None);
    }
}
