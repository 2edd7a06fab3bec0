//! Times that a machine's clock cannot spoil: what a platform's own clock says, and the time since the machine began.
//!
//! Messages carry the platform's time. Compared with a machine's clock that was set, or is wrong, a new message would
//! look old and an old command new.

use std::time::Duration;

use hermes_config::sync::Mutex;
use reqwest::header::{DATE, HeaderMap};
use rustix::time::{ClockId, clock_gettime};

/// The clock that counts on while the machine sleeps.
#[cfg(any(target_os = "linux", target_os = "android"))]
const STEADY: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const STEADY: ClockId = ClockId::Monotonic;

/// The time since the machine began. It never jumps, and goes on while the machine sleeps.
pub(crate) fn steady_time() -> Duration {
    let now = clock_gettime(STEADY);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or_default())
}

/// The clock of a platform, by the dates of its replies.
#[derive(Debug, Default)]
pub(crate) struct PlatformClock {
    read: Mutex<Option<ClockReading>>,
}

#[derive(Debug, Clone, Copy)]
struct ClockReading {
    /// Seconds since 1970, by the platform.
    platform: f64,
    at: Duration,
}

impl PlatformClock {
    /// Reads the date of a reply that has just come.
    pub(crate) fn learn(&self, headers: &HeaderMap) {
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        let Some(date) = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok()) else {
            return;
        };
        self.set(date.timestamp().as_duration().as_secs_f64(), steady_time());
    }

    fn set(&self, platform: f64, at: Duration) {
        *self.read.lock() = Some(ClockReading { platform, at });
    }

    /// The time, in seconds since 1970; the machine's where the platform has not told it.
    pub(crate) fn now(&self) -> f64 {
        self.now_at(steady_time())
            .unwrap_or_else(hermes_store::epoch_seconds)
    }

    fn now_at(&self, at: Duration) -> Option<f64> {
        let read = (*self.read.lock())?;
        Some(read.platform + at.saturating_sub(read.at).as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn the_platform_tells_the_time_and_it_goes_on_by_itself() {
        let clock = PlatformClock::default();
        assert!((clock.now() - hermes_store::epoch_seconds()).abs() < 60.0);
        let mut headers = HeaderMap::new();
        headers.insert(DATE, HeaderValue::from_static("not a date"));
        clock.learn(&headers);
        assert_eq!(clock.now_at(Duration::ZERO), None);
        let date = HeaderValue::from_static("Sat, 01 Jan 2000 00:00:10 GMT");
        headers.insert(DATE, date);
        clock.learn(&headers);
        let read = (*clock.read.lock()).unwrap();
        let told = clock.now_at(read.at + Duration::from_mins(1));
        assert_eq!(told, Some(946_684_870.0));
    }
}
