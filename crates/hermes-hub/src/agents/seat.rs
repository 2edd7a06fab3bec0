//! The state of one tenant's agent in this process.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::watch;

use super::terms::{Terms, Waking};
use crate::{
    runtime::Death,
    shapes::{AgentPhase, AgentState, Time},
};

/// Failures older than this do not count.
const WINDOW: Duration = Duration::from_mins(10);

const TOO_MANY: usize = 5;

const LONGEST_REST: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not running; work starts it.
    Asleep,
    /// Not running because somebody stopped it.
    Stopped,
    Starting,
    Up,
    Stopping,
    Failed,
}

#[derive(Debug)]
pub(super) struct Seat {
    phase: watch::Sender<Phase>,
    since: Time,
    /// Number of guards that keep it running.
    pub(super) active: u32,
    pub(super) idle_since: Instant,
    pub(super) terms: Option<Arc<Terms>>,
    /// It was started with settings that have changed since and need a restart.
    pub(super) is_stale: bool,
    /// Settings in its home changed while it was starting.
    pub(super) has_news: bool,
    /// It is being started because it did not answer; its process may still be healthy.
    is_doubted: bool,
    restarts: u32,
    last_error: Option<String>,
    last_death: Option<(Instant, Death)>,
    failures: VecDeque<Instant>,
}

impl Default for Seat {
    fn default() -> Self {
        Self {
            phase: watch::Sender::new(Phase::Asleep),
            since: Time::now(),
            active: 0,
            idle_since: Instant::now(),
            terms: None,
            is_stale: false,
            has_news: false,
            is_doubted: false,
            restarts: 0,
            last_error: None,
            last_death: None,
            failures: VecDeque::new(),
        }
    }
}

impl Seat {
    pub(super) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    pub(super) fn follow(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    pub(super) fn turn_to(&mut self, phase: Phase) {
        if self.phase() == phase {
            return;
        }
        if phase == Phase::Starting {
            self.is_stale = false;
            self.is_doubted = false;
            self.restarts += u32::from(!self.failures.is_empty());
        }
        self.since = Time::now();
        self.idle_since = Instant::now();
        self.phase.send_replace(phase);
    }

    /// Marks an agent that did not answer. Returns true if it was running, so that it has to be checked.
    pub(super) fn doubt(&mut self) -> bool {
        if self.phase() != Phase::Up {
            return false;
        }
        let is_stale = self.is_stale;
        self.turn_to(Phase::Starting);
        self.is_stale = is_stale;
        self.is_doubted = true;
        true
    }

    /// It accepts runs. An agent that was checked after not answering may still be the old process with the old
    /// settings.
    pub(super) fn come_up(&mut self, terms: &Arc<Terms>) {
        let before = self.terms.replace(Arc::clone(terms));
        if self.is_doubted {
            self.is_stale |= before.is_some_and(|before| terms.need_a_start_after(&before));
        }
        self.turn_to(Phase::Up);
    }

    /// It did not start, or exited by itself.
    pub(super) fn fail(&mut self, reason: String) {
        let now = Instant::now();
        self.failures.push_back(now);
        self.forget_old_failures(now);
        self.last_error = Some(reason);
        self.turn_to(if self.failures.len() >= TOO_MANY {
            Phase::Failed
        } else {
            Phase::Asleep
        });
    }

    /// It exited by itself, which counts as a failure.
    pub(super) fn die(&mut self, death: Death) {
        self.fail(format!("the tenant's agent {death}"));
        self.last_death = Some((Instant::now(), death));
    }

    pub(super) fn death_since(&self, moment: Instant) -> Option<Death> {
        let (when, death) = self.last_death.as_ref()?;
        (*when >= moment).then(|| death.clone())
    }

    /// Forgets failures, because somebody starts it explicitly.
    pub(super) fn forgive(&mut self) {
        self.failures.clear();
        if self.phase() == Phase::Failed {
            self.turn_to(Phase::Stopped);
        }
    }

    /// Time left of the backoff after a failure: 1, 2, 4 seconds and so on.
    pub(super) fn rest(&mut self) -> Duration {
        let now = Instant::now();
        self.forget_old_failures(now);
        let (Some(last), Ok(count)) = (self.failures.back(), u32::try_from(self.failures.len()))
        else {
            return Duration::ZERO;
        };
        let rest = Duration::from_secs(1 << (count - 1).min(6)).min(LONGEST_REST);
        (*last + rest).saturating_duration_since(now)
    }

    fn forget_old_failures(&mut self, now: Instant) {
        while self
            .failures
            .front()
            .is_some_and(|failure| now.duration_since(*failure) > WINDOW)
        {
            self.failures.pop_front();
        }
    }

    pub(super) fn last_error(&self) -> &str {
        self.last_error.as_deref().unwrap_or("for no known reason")
    }

    pub(super) fn is_awake(&self) -> bool {
        matches!(self.phase(), Phase::Starting | Phase::Up | Phase::Stopping)
    }

    /// Running and idle for long enough, or idle and waiting for a restart.
    pub(super) fn is_tired(&self) -> bool {
        let may_sleep = |terms: &Arc<Terms>| {
            terms.waking != Waking::Always && self.idle_since.elapsed() >= terms.idle_stop
        };
        self.phase() == Phase::Up
            && self.active == 0
            && (self.is_stale || self.terms.as_ref().is_some_and(may_sleep))
    }

    /// It is always on, not running, and its backoff is over.
    pub(super) fn wants_up(&mut self) -> bool {
        let is_always_up = |terms: &Arc<Terms>| terms.waking == Waking::Always;
        self.phase() == Phase::Asleep
            && self.terms.as_ref().is_some_and(is_always_up)
            && self.rest().is_zero()
    }

    pub(super) fn shown_phase(&self) -> AgentPhase {
        match self.phase() {
            Phase::Asleep => AgentPhase::Sleeping,
            Phase::Stopped => AgentPhase::Stopped,
            Phase::Starting => AgentPhase::Starting,
            Phase::Up if self.active > 0 => AgentPhase::Running,
            Phase::Up => AgentPhase::Idle,
            Phase::Stopping => AgentPhase::Stopping,
            Phase::Failed => AgentPhase::Failed,
        }
    }

    pub(super) fn shown(&self, pid: Option<u32>, node: &str) -> AgentState {
        AgentState {
            state: self.shown_phase(),
            since: self.since,
            pid,
            node: node.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            active_runs: self.active,
            restarts: self.restarts,
            last_error: self.last_error.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_grow_and_the_fifth_failure_is_the_last() {
        let mut seat = Seat::default();
        assert_eq!(seat.rest(), Duration::ZERO);
        for (failure, most) in [(1, 1), (2, 2), (3, 4), (4, 8)] {
            seat.fail("no".into());
            assert_eq!(seat.phase(), Phase::Asleep, "after failure {failure}");
            let rest = seat.rest();
            let most = Duration::from_secs(most);
            assert!(rest <= most && rest > most / 2, "{rest:?} of {most:?}");
        }
        seat.fail("no".into());
        assert_eq!(seat.phase(), Phase::Failed);
        seat.forgive();
        assert_eq!(
            (seat.phase(), seat.rest()),
            (Phase::Stopped, Duration::ZERO)
        );
    }

    #[test]
    fn an_agent_with_old_settings_goes_down_as_soon_as_it_has_no_work() {
        let mut seat = Seat::default();
        seat.turn_to(Phase::Up);
        assert!(!seat.is_tired());
        (seat.is_stale, seat.active) = (true, 1);
        assert!(!seat.is_tired());
        seat.active = 0;
        assert!(seat.is_tired());
        seat.turn_to(Phase::Starting);
        assert!(!seat.is_stale);
    }

    #[test]
    fn work_is_told_from_waiting_for_it() {
        let mut seat = Seat::default();
        assert_eq!(seat.shown(None, "n1").state, AgentPhase::Sleeping);
        seat.turn_to(Phase::Up);
        assert_eq!(seat.shown(Some(1), "n1").state, AgentPhase::Idle);
        seat.active = 1;
        assert_eq!(seat.shown(Some(1), "n1").state, AgentPhase::Running);
    }
}
