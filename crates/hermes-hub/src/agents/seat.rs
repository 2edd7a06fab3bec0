//! What is remembered of one tenant's agent.

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

/// Failures that long ago do not count any more.
const WINDOW: Duration = Duration::from_mins(10);

/// So many failures within the window are too many.
const TOO_MANY: usize = 5;

/// The longest rest after a failure.
const LONGEST_REST: Duration = Duration::from_mins(1);

/// Where an agent is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Work wakes it.
    Asleep,
    /// The same, but somebody wanted it so.
    Stopped,
    Starting,
    Up,
    Stopping,
    /// It failed too often.
    Failed,
}

/// One tenant's agent.
#[derive(Debug)]
pub(super) struct Seat {
    phase: watch::Sender<Phase>,
    since: Time,
    /// How many work with it.
    pub(super) active: u32,
    pub(super) idle_since: Instant,
    /// What it was last started with.
    pub(super) terms: Option<Arc<Terms>>,
    /// It was started with settings that are others by now.
    pub(super) is_stale: bool,
    /// Settings in its home have changed while it was being started.
    pub(super) has_news: bool,
    /// It starts because it did not answer, and may turn out to be well.
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

    /// It did not answer. True if it was up, and is to be started anew unless it is well.
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

    /// It takes runs. One that was doubted may still be the process it was, with the settings of then.
    pub(super) fn come_up(&mut self, terms: &Arc<Terms>) {
        let before = self.terms.replace(Arc::clone(terms));
        if self.is_doubted {
            self.is_stale |= before.is_some_and(|before| terms.need_a_start_after(&before));
        }
        self.turn_to(Phase::Up);
    }

    /// It did not start, or it ended by itself.
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

    /// It ended by itself, which is a failure.
    pub(super) fn die(&mut self, death: Death) {
        self.fail(format!("the tenant's agent {death}"));
        self.last_death = Some((Instant::now(), death));
    }

    pub(super) fn death_since(&self, moment: Instant) -> Option<Death> {
        let (when, death) = self.last_death.as_ref()?;
        (*when >= moment).then(|| death.clone())
    }

    /// Somebody wants to try again.
    pub(super) fn forgive(&mut self) {
        self.failures.clear();
        if self.phase() == Phase::Failed {
            self.turn_to(Phase::Stopped);
        }
    }

    /// How long it still rests after a failure: 1, 2, 4 seconds and so on.
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

    /// Up, without work for long enough, and allowed to sleep; or without work, and to be started anew.
    pub(super) fn is_tired(&self) -> bool {
        let may_sleep = |terms: &Arc<Terms>| {
            terms.waking != Waking::Always && self.idle_since.elapsed() >= terms.idle_stop
        };
        self.phase() == Phase::Up
            && self.active == 0
            && (self.is_stale || self.terms.as_ref().is_some_and(may_sleep))
    }

    /// It should be up by itself, and has rested.
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
