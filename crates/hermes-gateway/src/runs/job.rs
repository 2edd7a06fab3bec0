//! A run that carries out a cron job.

use std::sync::{Mutex, PoisonError};

use hermes_agent::{conversation::Display as _, cron::Claimed, turn::TurnEvent};
use hermes_store::SessionId;
use serde_json::json;

use super::{Inner, Live, display::LogDisplay, log::RunLog, outcome::Outcome};

impl Inner {
    /// Carries it out when a turn is free. What was claimed is always finished, or it would stay claimed.
    pub(super) async fn job(
        &self,
        live: &Live,
        log: &RunLog,
        claimed: Claimed,
    ) -> (Outcome, Option<SessionId>) {
        let _permit = tokio::select! {
            permit = self.turns.acquire() => permit.ok(),
            () = live.stop.cancelled() => None,
        };
        log.started(None);
        let parts = &self.parts;
        let settings = parts.agent.settings();
        let display = Mutex::new(LogDisplay::new(log.clone(), parts.agent.redactor()));
        let observe = |event: TurnEvent| {
            let mut display = display.lock().unwrap_or_else(PoisonError::into_inner);
            display.show(event);
        };
        let ran = parts
            .runner
            .run(
                claimed,
                Ok(&parts.agent),
                &settings,
                &*parts.delivery,
                &live.stop,
                &observe,
            )
            .await;
        let session = ran.session.and_then(|id| SessionId::parse(&id).ok());
        let outcome = match ran.error {
            Some(error) => self.redacted(Outcome::failed("job_failed", error)),
            None => Outcome::Completed {
                output: ran.text,
                usage: json!(null),
            },
        };
        (outcome, session)
    }
}
