//! The state of one tenant's agent in this process.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::{Mutex, watch};

use crate::{
    api_types::{AgentPhase, AgentState, Time},
    tenants::{
        agents::spec::{AgentSpec, WakePolicy},
        runtime::AgentExit,
    },
};

/// Failures older than this do not count.
const FAILURE_WINDOW: Duration = Duration::from_mins(10);

const MAX_FAILURES: usize = 5;

const MAX_BACKOFF: Duration = Duration::from_mins(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotPhase {
    /// Not running; work starts it.
    Asleep,
    /// Not running because somebody stopped it.
    Stopped,
    Starting,
    Running,
    Stopping,
    Failed,
}

/// Why it is being started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartReason {
    NotRunning,
    /// It did not answer; its process may still be healthy.
    Unresponsive,
}

#[derive(Debug)]
pub(super) struct AgentSlot {
    phase: watch::Sender<SlotPhase>,
    since: Time,
    /// Number of guards that keep it running.
    pub(super) active_users: u32,
    pub(super) idle_since: Instant,
    pub(super) spec: Option<Arc<AgentSpec>>,
    /// It was started with settings that have changed since and need a restart.
    pub(super) is_stale: bool,
    /// Settings in its home changed while it was starting.
    pub(super) settings_changed: bool,
    /// Settings have changed that it could not be told of, or that nobody could read: it may be always on by now, which its
    /// spec does not say.
    pub(super) needs_look: bool,
    /// Held while settings are applied to it, so that older ones never follow newer ones.
    pub(super) applying: Arc<Mutex<()>>,
    start_reason: StartReason,
    restarts: u32,
    last_error: Option<String>,
    last_exit: Option<(Instant, AgentExit)>,
    failures: VecDeque<Instant>,
}

impl Default for AgentSlot {
    fn default() -> Self {
        Self {
            phase: watch::Sender::new(SlotPhase::Asleep),
            since: Time::now(),
            active_users: 0,
            idle_since: Instant::now(),
            spec: None,
            is_stale: false,
            settings_changed: false,
            needs_look: false,
            applying: Arc::default(),
            start_reason: StartReason::NotRunning,
            restarts: 0,
            last_error: None,
            last_exit: None,
            failures: VecDeque::new(),
        }
    }
}

impl AgentSlot {
    pub(super) fn phase(&self) -> SlotPhase {
        *self.phase.borrow()
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<SlotPhase> {
        self.phase.subscribe()
    }

    pub(super) fn set_phase(&mut self, phase: SlotPhase) {
        if self.phase() == phase {
            return;
        }
        if phase == SlotPhase::Starting {
            self.is_stale = false;
            self.start_reason = StartReason::NotRunning;
            self.restarts += u32::from(!self.failures.is_empty());
        }
        self.since = Time::now();
        self.idle_since = Instant::now();
        self.phase.send_replace(phase);
    }

    /// Marks an agent that did not answer. Returns true if it was running, so that it has to be checked.
    pub(super) fn mark_unresponsive(&mut self) -> bool {
        if self.phase() != SlotPhase::Running {
            return false;
        }
        let is_stale = self.is_stale;
        self.set_phase(SlotPhase::Starting);
        self.is_stale = is_stale;
        self.start_reason = StartReason::Unresponsive;
        true
    }

    /// It accepts runs. An agent that was checked after not answering may still be the old process with the old
    /// settings.
    pub(super) fn mark_running(&mut self, spec: &Arc<AgentSpec>) {
        let before = self.spec.replace(Arc::clone(spec));
        if self.start_reason == StartReason::Unresponsive {
            self.is_stale |= before.is_some_and(|before| spec.requires_restart_after(&before));
        }
        self.set_phase(SlotPhase::Running);
    }

    /// It did not start, or exited by itself.
    pub(super) fn record_failure(&mut self, reason: String) {
        let now = Instant::now();
        self.failures.push_back(now);
        self.prune_failures(now);
        self.last_error = Some(reason);
        self.set_phase(if self.failures.len() >= MAX_FAILURES {
            SlotPhase::Failed
        } else {
            SlotPhase::Asleep
        });
    }

    /// It exited by itself, which counts as a failure.
    pub(super) fn record_exit(&mut self, exit: AgentExit) {
        self.record_failure(format!("the tenant's agent {exit}"));
        self.last_exit = Some((Instant::now(), exit));
    }

    pub(super) fn exit_since(&self, moment: Instant) -> Option<AgentExit> {
        let (when, exit) = self.last_exit.as_ref()?;
        (*when >= moment).then(|| exit.clone())
    }

    /// Forgets failures, because somebody starts it explicitly.
    pub(super) fn clear_failures(&mut self) {
        self.failures.clear();
        if self.phase() == SlotPhase::Failed {
            self.set_phase(SlotPhase::Stopped);
        }
    }

    /// Time left of the backoff after a failure: 1, 2, 4 seconds and so on.
    pub(super) fn backoff_left(&mut self) -> Duration {
        let now = Instant::now();
        self.prune_failures(now);
        let (Some(last), Ok(count)) = (self.failures.back(), u32::try_from(self.failures.len()))
        else {
            return Duration::ZERO;
        };
        let rest = Duration::from_secs(1 << (count - 1).min(6)).min(MAX_BACKOFF);
        (*last + rest).saturating_duration_since(now)
    }

    fn prune_failures(&mut self, now: Instant) {
        while self
            .failures
            .front()
            .is_some_and(|failure| now.duration_since(*failure) > FAILURE_WINDOW)
        {
            self.failures.pop_front();
        }
    }

    pub(super) fn last_error(&self) -> &str {
        self.last_error.as_deref().unwrap_or("for no known reason")
    }

    pub(super) fn is_awake(&self) -> bool {
        matches!(
            self.phase(),
            SlotPhase::Starting | SlotPhase::Running | SlotPhase::Stopping
        )
    }

    /// Running and idle for long enough, or idle and waiting for a restart.
    pub(super) fn should_stop(&self) -> bool {
        let may_sleep = |spec: &Arc<AgentSpec>| {
            spec.wake_policy != WakePolicy::Always && self.idle_since.elapsed() >= spec.idle_stop
        };
        self.phase() == SlotPhase::Running
            && self.active_users == 0
            && (self.is_stale || self.spec.as_ref().is_some_and(may_sleep))
    }

    /// It has become always on while it was running.
    pub(super) fn keep_always_on(&mut self) {
        if let Some(spec) = &mut self.spec {
            Arc::make_mut(spec).wake_policy = WakePolicy::Always;
        }
    }

    /// It may be always on by now, is not running, and its backoff is over.
    pub(super) fn should_look(&mut self) -> bool {
        self.phase() == SlotPhase::Asleep && self.needs_look && self.backoff_left().is_zero()
    }

    /// It is always on, not running, and its backoff is over.
    pub(super) fn should_restart(&mut self) -> bool {
        let is_always_up = |spec: &Arc<AgentSpec>| spec.wake_policy == WakePolicy::Always;
        self.phase() == SlotPhase::Asleep
            && self.spec.as_ref().is_some_and(is_always_up)
            && self.backoff_left().is_zero()
    }

    pub(super) fn public_phase(&self) -> AgentPhase {
        match self.phase() {
            SlotPhase::Asleep => AgentPhase::Sleeping,
            SlotPhase::Stopped => AgentPhase::Stopped,
            SlotPhase::Starting => AgentPhase::Starting,
            SlotPhase::Running if self.active_users > 0 => AgentPhase::Running,
            SlotPhase::Running => AgentPhase::Idle,
            SlotPhase::Stopping => AgentPhase::Stopping,
            SlotPhase::Failed => AgentPhase::Failed,
        }
    }

    pub(super) fn public_state(&self, pid: Option<u32>, node: &str) -> AgentState {
        AgentState {
            state: self.public_phase(),
            since: self.since,
            pid,
            node: node.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            active_runs: self.active_users,
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
        let mut slot = AgentSlot::default();
        assert_eq!(slot.backoff_left(), Duration::ZERO);
        for (failure, most) in [(1, 1), (2, 2), (3, 4), (4, 8)] {
            let begun = Instant::now();
            slot.record_failure("no".into());
            assert_eq!(slot.phase(), SlotPhase::Asleep, "after failure {failure}");
            let rest = slot.backoff_left();
            let most = Duration::from_secs(most);
            let passed = begun.elapsed();
            assert!(
                rest <= most && rest + passed >= most,
                "{rest:?} of {most:?}"
            );
        }
        slot.record_failure("no".into());
        assert_eq!(slot.phase(), SlotPhase::Failed);
        slot.clear_failures();
        assert_eq!(
            (slot.phase(), slot.backoff_left()),
            (SlotPhase::Stopped, Duration::ZERO)
        );
    }

    #[test]
    fn an_agent_with_old_settings_goes_down_as_soon_as_it_has_no_work() {
        let mut slot = AgentSlot::default();
        slot.set_phase(SlotPhase::Running);
        assert!(!slot.should_stop());
        (slot.is_stale, slot.active_users) = (true, 1);
        assert!(!slot.should_stop());
        slot.active_users = 0;
        assert!(slot.should_stop());
        slot.set_phase(SlotPhase::Starting);
        assert!(!slot.is_stale);
    }

    #[test]
    fn work_is_told_from_waiting_for_it() {
        let mut slot = AgentSlot::default();
        assert_eq!(slot.public_state(None, "n1").state, AgentPhase::Sleeping);
        slot.set_phase(SlotPhase::Running);
        assert_eq!(slot.public_state(Some(1), "n1").state, AgentPhase::Idle);
        slot.active_users = 1;
        assert_eq!(slot.public_state(Some(1), "n1").state, AgentPhase::Running);
    }
}
