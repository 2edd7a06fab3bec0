//! Until when a server may live, as two processes of one machine tell each other.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// A moment by the clock of the machine, which nobody sets and which goes on while the machine sleeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MachineTime(Duration);

impl MachineTime {
    pub(super) fn now() -> Self {
        #[cfg(target_os = "linux")]
        let clock = ClockId::Boottime;
        #[cfg(not(target_os = "linux"))]
        let clock = ClockId::Monotonic;
        let now = clock_gettime(clock);
        let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
        let nanoseconds = u32::try_from(now.tv_nsec).unwrap_or_default();
        Self(Duration::new(seconds, nanoseconds))
    }

    /// The same moment by this clock. One that is over is now.
    pub(super) fn from_instant(moment: Instant) -> Self {
        let left = moment.saturating_duration_since(Instant::now());
        Self(Self::now().0 + left)
    }

    pub(super) fn remaining(self) -> Duration {
        self.0.saturating_sub(Self::now().0)
    }

    pub(super) fn to_bytes(self) -> [u8; 8] {
        let nanoseconds = u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX);
        nanoseconds.to_ne_bytes()
    }

    pub(super) fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(Duration::from_nanos(u64::from_ne_bytes(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_the_same_for_both_processes() {
        let moment = MachineTime::from_instant(Instant::now() + Duration::from_mins(10));
        assert_eq!(MachineTime::from_bytes(moment.to_bytes()), moment);
        assert!(moment.remaining() > Duration::from_mins(9));
        assert!(moment.remaining() <= Duration::from_mins(10));
        let over = MachineTime::from_instant(Instant::now());
        assert!(over <= MachineTime::now());
        assert_eq!(over.remaining(), Duration::ZERO);
    }
}
