//! Use of memory, file descriptors and disk space over time, and how fast it grows.

use std::fmt::{Display, Formatter};
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::api::usage;

const MEBIBYTE: f64 = 1024.0 * 1024.0;
const HOUR_SECONDS: f64 = 3600.0;

/// Use of resources at one moment.
#[derive(Clone, Copy)]
pub struct Reading {
    at: Duration,
    memory_mib: f64,
    descriptors: usize,
    disk_mib: f64,
}

impl Reading {
    pub fn take(at: Duration, pid: u32, directory: &Path) -> Result<Reading> {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).context("the server ended")?;
        Ok(Reading {
            at,
            memory_mib: usage::own(pid),
            descriptors: descriptors.count(),
            disk_mib: bytes_below(directory) as f64 / MEBIBYTE,
        })
    }
}

impl Display for Reading {
    fn fmt(&self, out: &mut Formatter) -> std::fmt::Result {
        let Reading { at, memory_mib, descriptors, disk_mib } = self;
        let seconds = at.as_secs();
        write!(
            out,
            "{seconds:>6} s {memory_mib:>8.1} MiB {descriptors:>5} fds {disk_mib:>8.1} MiB disk"
        )
    }
}

/// Files that are removed meanwhile count as empty.
fn bytes_below(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let sizes = entries.map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// Growth per hour.
#[derive(Debug, Default, PartialEq)]
pub struct Slopes {
    pub memory: f64,
    pub descriptors: f64,
    pub disk: f64,
}

pub struct Readings {
    warm_up: Duration,
    all: Vec<Reading>,
}

impl Readings {
    pub fn new(warm_up: Duration) -> Readings {
        Readings { warm_up, all: Vec::new() }
    }

    pub fn push(&mut self, reading: Reading) {
        self.all.push(reading);
    }

    /// Returns the slopes of the straight lines that fit the readings after the warm-up best.
    pub fn slopes(&self) -> Slopes {
        let warm: Vec<Reading> =
            self.all.iter().copied().filter(|reading| reading.at >= self.warm_up).collect();
        let slope = |value: fn(&Reading) -> f64| slope(&warm, value) * HOUR_SECONDS;
        Slopes {
            memory: slope(|reading| reading.memory_mib),
            descriptors: slope(|reading| reading.descriptors as f64),
            disk: slope(|reading| reading.disk_mib),
        }
    }

    /// Fails if a slope exceeds its limit.
    pub fn ensure_level(&self, memory: f64, descriptors: f64, disk: f64) -> Result<()> {
        let slopes = self.slopes();
        ensure!(slopes.memory <= memory, "memory grows by {:.2} MiB/h", slopes.memory);
        let grown = slopes.descriptors;
        ensure!(grown <= descriptors, "file descriptors grow by {grown:.1}/h");
        ensure!(slopes.disk <= disk, "disk space grows by {:.1} MiB/h", slopes.disk);
        Ok(())
    }
}

/// Least squares, per second.
fn slope(readings: &[Reading], value: fn(&Reading) -> f64) -> f64 {
    let count = readings.len() as f64;
    let times = readings.iter().map(|reading| reading.at.as_secs_f64());
    let mean_time = times.clone().sum::<f64>() / count;
    let mean_value = readings.iter().map(value).sum::<f64>() / count;
    let products = readings.iter().zip(times.clone());
    let covariance: f64 =
        products.map(|(it, at)| (at - mean_time) * (value(it) - mean_value)).sum();
    let variance: f64 = times.map(|at| (at - mean_time).powi(2)).sum();
    if variance > 0.0 { covariance / variance } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_before_the_warm_up_does_not_count() {
        let mut readings = Readings::new(Duration::from_secs(100));
        for seconds in 0..200 {
            let memory_mib = if seconds < 100 { seconds as f64 } else { 100.0 };
            let at = Duration::from_secs(seconds);
            let descriptors = seconds as usize;
            readings.push(Reading { at, memory_mib, descriptors, disk_mib: 5.0 });
        }
        let slopes = readings.slopes();
        assert_eq!((slopes.memory, slopes.disk), (0.0, 0.0));
        assert!((slopes.descriptors - HOUR_SECONDS).abs() < 1e-6);
        assert!(readings.ensure_level(1.0, 4.0, 1.0).is_err());
        assert!(readings.ensure_level(1.0, 4_000.0, 1.0).is_ok());
    }
}
