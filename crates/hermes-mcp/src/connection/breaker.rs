//! The circuit breaker of one server: after three transport failures in a row calls fail at once for a minute.
//!
//! It counts only what it is told. What is a failure is for the caller to say: a broken transport is, a tool's own
//! error, a timeout or an interrupt is not.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_config::sync::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};

/// The time, for the host and its breakers; tests set their own.
pub type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// Failures in a row that open the breaker.
const FAILURE_THRESHOLD: u32 = 3;

/// How long calls are refused once it is open.
const OPEN_DURATION: Duration = Duration::from_mins(1);

/// Refuses calls to a server whose transport keeps failing.
#[derive(Debug)]
pub struct CircuitBreaker(Mutex<Circuit>);

#[derive(Debug, Clone, Copy)]
enum Circuit {
    Closed {
        failures: u32,
    },
    Open {
        until: Instant,
    },
    /// One call is on its way to find out. If its end is never reported, the next may try at `until`.
    HalfOpen {
        until: Instant,
    },
}

/// What a status display says about a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// Calls pass.
    Closed,
    /// Calls are refused.
    Open,
    /// One call probes whether the server is back; the others are refused.
    HalfOpen,
}

impl Default for CircuitBreaker {
    fn default() -> Self {
        Self::new()
    }
}

impl CircuitBreaker {
    pub fn new() -> Self {
        Self(Mutex::new(Circuit::Closed { failures: 0 }))
    }

    /// Checks whether a call may be made now; `Err` says how long to wait. When that time is over, exactly one call
    /// passes.
    pub fn check_call(&self, now: Instant) -> Result<(), Duration> {
        let mut circuit = self.lock();
        match *circuit {
            Circuit::Closed { .. } => Ok(()),
            Circuit::Open { until } | Circuit::HalfOpen { until } if now < until => {
                Err(until - now)
            }
            Circuit::Open { .. } | Circuit::HalfOpen { .. } => {
                *circuit = Circuit::HalfOpen {
                    until: now + OPEN_DURATION,
                };
                Ok(())
            }
        }
    }

    /// The server answered a call, be it with an error of the tool.
    pub fn record_success(&self) {
        self.reset();
    }

    /// The transport failed under a call.
    pub fn record_failure(&self, now: Instant) {
        let mut circuit = self.lock();
        *circuit = match *circuit {
            Circuit::Closed { failures } if failures + 1 < FAILURE_THRESHOLD => Circuit::Closed {
                failures: failures + 1,
            },
            Circuit::Closed { .. } | Circuit::HalfOpen { .. } => Circuit::Open {
                until: now + OPEN_DURATION,
            },
            // A call sent before the breaker opened: nothing new.
            open @ Circuit::Open { .. } => open,
        };
    }

    /// A call ended without saying anything about the transport (a timeout, an interrupt): the next call may probe.
    pub fn record_inconclusive(&self, now: Instant) {
        let mut circuit = self.lock();
        if let Circuit::HalfOpen { .. } = *circuit {
            *circuit = Circuit::Open { until: now };
        }
    }

    /// Resets it, as after a new session.
    pub fn reset(&self) {
        *self.lock() = Circuit::Closed { failures: 0 };
    }

    pub fn state(&self) -> BreakerState {
        match *self.lock() {
            Circuit::Closed { .. } => BreakerState::Closed,
            Circuit::Open { .. } => BreakerState::Open,
            Circuit::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Circuit> {
        self.0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    fn opened_at(start: Instant) -> CircuitBreaker {
        let breaker = CircuitBreaker::new();
        for _ in 0..3 {
            breaker.record_failure(start);
        }
        breaker
    }

    #[test]
    fn three_failures_in_a_row_open_it_for_a_minute() {
        let start = Instant::now();
        let breaker = CircuitBreaker::new();
        breaker.record_failure(start);
        breaker.record_failure(start);
        assert_eq!(breaker.check_call(start), Ok(()));
        breaker.record_failure(start);
        assert_eq!(breaker.state(), BreakerState::Open);
        assert_eq!(breaker.check_call(start + seconds(20)), Err(seconds(40)));
    }

    #[test]
    fn a_success_in_between_starts_the_count_again() {
        let start = Instant::now();
        let breaker = CircuitBreaker::new();
        for _ in 0..10 {
            breaker.record_failure(start);
            breaker.record_failure(start);
            breaker.record_success();
        }
        assert_eq!(breaker.state(), BreakerState::Closed);
        assert_eq!(breaker.check_call(start), Ok(()));
    }

    #[test]
    fn after_the_pause_exactly_one_call_passes() {
        let start = Instant::now();
        let breaker = opened_at(start);
        let later = start + seconds(60);
        assert_eq!(breaker.check_call(later), Ok(()));
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert!(breaker.check_call(later).is_err());
        breaker.record_success();
        assert_eq!(breaker.state(), BreakerState::Closed);
        assert_eq!(breaker.check_call(later), Ok(()));
    }

    #[test]
    fn a_failed_trial_opens_it_for_another_minute() {
        let start = Instant::now();
        let breaker = opened_at(start);
        assert_eq!(breaker.check_call(start + seconds(61)), Ok(()));
        breaker.record_failure(start + seconds(62));
        assert_eq!(breaker.check_call(start + seconds(63)), Err(seconds(59)));
    }

    #[test]
    fn late_failures_of_earlier_calls_do_not_prolong_the_pause() {
        let start = Instant::now();
        let breaker = opened_at(start);
        breaker.record_failure(start + seconds(50));
        assert_eq!(breaker.check_call(start + seconds(60)), Ok(()));
    }

    #[test]
    fn an_undecided_trial_makes_room_for_the_next() {
        let start = Instant::now();
        let breaker = opened_at(start);
        let later = start + seconds(60);
        assert_eq!(breaker.check_call(later), Ok(()));
        breaker.record_inconclusive(later);
        assert_eq!(breaker.check_call(later), Ok(()));
    }

    #[test]
    fn a_trial_nobody_reports_on_does_not_block_forever() {
        let start = Instant::now();
        let breaker = opened_at(start);
        assert_eq!(breaker.check_call(start + seconds(60)), Ok(()));
        assert_eq!(breaker.check_call(start + seconds(120)), Ok(()));
    }

    #[test]
    fn undecided_calls_change_nothing_while_it_is_closed() {
        let start = Instant::now();
        let breaker = CircuitBreaker::new();
        breaker.record_failure(start);
        breaker.record_failure(start);
        breaker.record_inconclusive(start);
        breaker.record_failure(start);
        assert_eq!(breaker.state(), BreakerState::Open);
    }

    #[test]
    fn a_new_session_closes_it() {
        let start = Instant::now();
        let breaker = opened_at(start);
        breaker.reset();
        assert_eq!(breaker.check_call(start), Ok(()));
    }
}
