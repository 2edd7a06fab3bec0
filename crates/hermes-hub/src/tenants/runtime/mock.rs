//! A runtime without agents: every run has events and completes with a fixed text. For trying out the Hub's API.

use std::{collections::HashSet, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt, stream::BoxStream};
use hermes_config::sync::{Mutex, MutexGuard};
use hermes_protocol::{
    AgentReply, AgentRequest, ApprovalDecision, Directives, ModelTestReport, RefusalReason,
    RequestRefusal, RunEvent, ServerToolList, TokenUsage,
};

use super::{
    AgentEvent, AgentLaunch, AgentRunId, Confinement, ProcessStatus, RunInput, Runtime,
    RuntimeError,
};
use crate::{RunId, TenantId};

pub const FIXED_OUTPUT: &str = "This Hub runs no agents (`runtime: mock`).";

#[derive(Debug, Default)]
pub struct MockRuntime {
    awake: Mutex<HashSet<TenantId>>,
}

impl MockRuntime {
    fn awake(&self) -> MutexGuard<'_, HashSet<TenantId>> {
        self.awake.lock()
    }
}

fn events() -> Vec<AgentEvent> {
    let events = [
        RunEvent::Started { session_id: None },
        RunEvent::delta(FIXED_OUTPUT),
        RunEvent::Completed {
            output: FIXED_OUTPUT.to_owned(),
            usage: Some(TokenUsage::default()),
            model: None,
            tool_calls: Vec::new(),
        },
    ];
    events
        .into_iter()
        .zip(1..)
        .map(|(event, sequence)| AgentEvent { sequence, event })
        .collect()
}

#[async_trait]
impl Runtime for MockRuntime {
    async fn start(&self, launch: AgentLaunch) -> Result<Vec<Confinement>, RuntimeError> {
        self.awake().insert(launch.tenant);
        Ok(vec![Confinement {
            means: "Sandboxed",
            in_force: false,
            reason: "mock".into(),
        }])
    }

    async fn stop(&self, tenant: &TenantId, _: Duration) {
        self.awake().remove(tenant);
    }

    async fn status(&self, tenant: &TenantId) -> ProcessStatus {
        if self.awake().contains(tenant) {
            ProcessStatus::Running { pid: None }
        } else {
            ProcessStatus::Stopped
        }
    }

    async fn apply(&self, _: &TenantId, _: &Directives) -> Result<(), RuntimeError> {
        Ok(())
    }

    async fn run(
        &self,
        _: &TenantId,
        run: &RunId,
        attempt: u32,
        _: &RunInput,
    ) -> Result<AgentRunId, RuntimeError> {
        Ok(AgentRunId(format!("{run}-{attempt}")))
    }

    async fn events(
        &self,
        _: &TenantId,
        _: &AgentRunId,
        after: u64,
    ) -> Result<BoxStream<'static, Result<AgentEvent, RuntimeError>>, RuntimeError> {
        let rest = events()
            .into_iter()
            .filter(move |event| event.sequence > after)
            .map(Ok);
        Ok(futures::stream::iter(rest).boxed())
    }

    async fn decide(
        &self,
        _: &TenantId,
        _: &AgentRunId,
        _: &ApprovalDecision,
    ) -> Result<(), RuntimeError> {
        Err(RuntimeError::Refused("nothing waits for a decision".into()))
    }

    async fn stop_run(&self, _: &TenantId, _: &AgentRunId) -> Result<(), RuntimeError> {
        Ok(())
    }

    /// There are no servers: nothing is connected, and the model says the fixed text.
    async fn send_request(
        &self,
        _: &TenantId,
        request: &AgentRequest,
        _: Duration,
    ) -> Result<AgentReply, RuntimeError> {
        let refused = || {
            AgentReply::Refused(RequestRefusal {
                reason: RefusalReason::Unusable,
                message: FIXED_OUTPUT.to_owned(),
            })
        };
        Ok(match request {
            AgentRequest::TestModel => AgentReply::ModelTested(ModelTestReport {
                ok: true,
                model: None,
                provider: None,
                reply: Some(FIXED_OUTPUT.to_owned()),
                error: None,
                elapsed_ms: 0,
            }),
            AgentRequest::ListServers => AgentReply::Servers(Vec::new()),
            AgentRequest::ListTools { server } => AgentReply::Tools(ServerToolList {
                server: server.clone(),
                tools: Vec::new(),
                resources: Vec::new(),
                prompts: Vec::new(),
                warnings: vec![FIXED_OUTPUT.to_owned()],
            }),
            AgentRequest::ForgetServer { .. } => AgentReply::Forgotten,
            AgentRequest::RenameSession { title, .. } => AgentReply::SessionRenamed {
                title: Some(title.clone()).filter(|title| !title.is_empty()),
            },
            AgentRequest::DeleteSession { .. } => AgentReply::SessionDeleted,
            AgentRequest::TestServer { .. }
            | AgentRequest::AcceptTools { .. }
            | AgentRequest::CallTool { .. }
            | AgentRequest::BeginLogin { .. }
            | AgentRequest::FinishLogin { .. } => refused(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_run_ends_with_the_fixed_text_and_goes_on_where_it_was_left() {
        let mock = MockRuntime::default();
        let tenant = TenantId::parse("a").unwrap();
        let run = RunId::random().unwrap();
        let job = RunInput::Job(crate::JobId::parse("j").unwrap());
        let run = mock.run(&tenant, &run, 1, &job).await.unwrap();
        for after in [0, 2] {
            let events = mock.events(&tenant, &run, after).await.unwrap();
            let events: Vec<_> = events.map(Result::unwrap).collect().await;
            assert_eq!(events.len() as u64, 3 - after);
            let last = &events.last().unwrap().event;
            assert!(matches!(last, RunEvent::Completed { output, .. } if output == FIXED_OUTPUT));
        }
    }
}
