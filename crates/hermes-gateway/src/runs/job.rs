//! A run that executes a cron job.

use std::sync::{Mutex, PoisonError};

use hermes_agent::{
    conversation::Display as _,
    cron::Claimed,
    turn::{Activity, TurnEvent},
};
use hermes_store::SessionId;
use serde_json::json;

use super::{Inner, Live, display::LogDisplay, log::RunLog, outcome::Outcome, say::too_long};

impl Inner {
    /// Executes it when a turn is free. A claimed run is always finished, or it would stay claimed.
    pub(super) async fn job(
        &self,
        live: &Live,
        log: &RunLog,
        claimed: Claimed,
    ) -> (Outcome, Option<SessionId>) {
        let _turn = tokio::select! {
            turn = self.turns.take() => Some(turn),
            () = live.stop.cancelled() => None,
        };
        log.started(None);
        let parts = &self.parts;
        let settings = parts.agent.settings();
        let display = Mutex::new(LogDisplay::new(
            log.clone(),
            parts.agent.redactor(),
            Activity::default(),
        ));
        let observe = |event: TurnEvent| {
            let mut display = display.lock().unwrap_or_else(PoisonError::into_inner);
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
            failure = too_long(parts.agent.ceiling().longest_run()) => {
                stop.cancel();
                (running.await, Some(failure))
            }
        };
        let session = ran.session.and_then(|id| SessionId::parse(&id).ok());
        let outcome = match (overdue, ran.error) {
            (Some(overdue), _) => overdue,
            (None, Some(error)) => self.redacted(Outcome::failed("job_failed", error)),
            (None, None) => Outcome::Completed {
                output: ran.text,
                usage: json!(null),
                client_calls: Vec::new(),
            },
        };
        (outcome, session)
    }
}
