//! A run that executes a cron job.

use hermes_config::sync::Mutex;

use hermes_agent::{
    conversation::TurnDisplay as _,
    cron::ClaimedRun,
    turn::{Activity, TurnEvent},
};
use hermes_protocol::RunEvent;
use hermes_store::SessionId;

use super::{
    LiveRun, RunsInner,
    display::LogDisplay,
    log::RunLog,
    outcome::{RunOutcome, answering_model, token_usage},
};
use crate::runs::turn::wait_for_max_run_time;

impl RunsInner {
    /// Executes it when a turn is free. A claimed run is always finished, or it would stay claimed.
    pub(super) async fn execute_job(
        &self,
        live: &LiveRun,
        log: &RunLog,
        claimed: ClaimedRun,
    ) -> (RunOutcome, Option<SessionId>) {
        let _turn = tokio::select! {
            turn = self.turn_slots.acquire() => Some(turn),
            () = live.stop.cancelled() => None,
        };
        log.record(RunEvent::Started { session_id: None });
        let parts = &self.parts;
        let settings = parts.agent.settings();
        let display = Mutex::new(LogDisplay::new(
            log.clone(),
            parts.agent.redactor(),
            Activity::default(),
        ));
        let observe = |event: TurnEvent| {
            let mut display = display.lock();
            display.show(event);
        };
        let stop = live.stop.child_token();
        let mut running = Box::pin(parts.runner.run(
            claimed,
            Ok(&parts.agent),
            &settings,
            &*parts.delivery,
            &stop,
            &observe,
        ));
        let (ran, overdue) = tokio::select! {
            ran = &mut running => (ran, None),
            failure = wait_for_max_run_time(parts.agent.policy().max_run_time()) => {
                stop.cancel();
                (running.await, Some(failure))
            }
        };
        live.note_use(ran.usage.as_ref());
        let session = ran.session.and_then(|id| SessionId::parse(&id).ok());
        let outcome = match (overdue, ran.error) {
            (Some(overdue), _) => overdue,
            (None, Some(error)) => self.redact_outcome(RunOutcome::failed("job_failed", error)),
            (None, None) => RunOutcome::Completed {
                output: ran.text,
                usage: ran.usage.as_ref().map(token_usage),
                model: ran.usage.and_then(answering_model),
                client_calls: Vec::new(),
            },
        };
        (outcome, session)
    }
}
