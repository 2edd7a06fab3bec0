//! Times of one thing, measured again and again, and the clocks that they are read from, which are the same in all
//! processes.

use std::{io, time::Duration};

use anyhow::Result;
use serde_json::{Value, json};

/// Times in the order they were taken.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples(Vec<Duration>);

impl Samples {
    pub(crate) fn push(&mut self, time: Duration) {
        self.0.push(time);
    }

    pub(crate) fn extend(&mut self, others: &Self) {
        self.0.extend_from_slice(&others.0);
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn median(&self) -> Duration {
        self.at(50)
    }

    pub(crate) fn mean(&self) -> Duration {
        let count = u32::try_from(self.0.len()).unwrap_or(u32::MAX).max(1);
        self.0.iter().sum::<Duration>() / count
    }

    pub(crate) fn p99(&self) -> Duration {
        self.at(99)
    }

    /// The time that this percentage of the samples did not exceed.
    fn at(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let index = (sorted.len() * percent)
            .div_ceil(100)
            .saturating_sub(1)
            .min(sorted.len().saturating_sub(1));
        sorted.get(index).copied().unwrap_or_default()
    }

    pub(crate) fn to_json(&self) -> Value {
        json!({
            "p50_us": microseconds(self.median()),
            "p99_us": microseconds(self.p99()),
            "repetitions": self.count(),
        })
    }
}

pub(crate) fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Time since some moment, the same moment for every process of this machine.
pub(crate) fn monotonic_time() -> Result<Duration> {
    read_clock(libc::CLOCK_MONOTONIC)
}

/// The processor time that a process has used so far, on all its threads, those that have ended included.
#[expect(
    unsafe_code,
    reason = "`/proc` only counts in hundredths of a second, and no safe interface has another process's clock"
)]
pub(crate) fn processor_time(pid: u32) -> Result<Duration> {
    let mut clock = 0;
    // SAFETY: the pointer is to a live variable of the right type.
    let status = unsafe { libc::clock_getcpuclockid(libc::pid_t::try_from(pid)?, &raw mut clock) };
    if status != 0 {
        return Err(io::Error::from_raw_os_error(status).into());
    }
    read_clock(clock)
}

#[expect(unsafe_code, reason = "no safe interface has another process's clock")]
fn read_clock(clock: libc::clockid_t) -> Result<Duration> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer is to a live variable of the right type.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error().into());
    }
    Ok(Duration::new(
        time.tv_sec.try_into()?,
        time.tv_nsec.try_into()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(milliseconds: impl IntoIterator<Item = u64>) -> Samples {
        Samples(
            milliseconds
                .into_iter()
                .map(Duration::from_millis)
                .collect(),
        )
    }

    #[test]
    fn the_median_is_in_the_middle_whatever_the_order() {
        assert_eq!(samples([9, 1, 5]).median(), Duration::from_millis(5));
        assert_eq!(samples([4, 1, 3, 2]).median(), Duration::from_millis(2));
    }

    #[test]
    fn one_outlier_in_two_hundred_is_beyond_the_99th_percentile() {
        let times = samples(std::iter::repeat_n(1, 199).chain([500]));
        assert_eq!(times.p99(), Duration::from_millis(1));
        assert_eq!(samples([1, 2, 3]).p99(), Duration::from_millis(3));
    }
}
