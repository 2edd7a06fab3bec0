//! Asking the model one word, to see that it can be reached with the key that there is.

use std::time::{Duration, Instant};

use hermes_agent::{
    conversation::{Agent, ConversationError, hosting_tenant},
    message::Message,
    model::{ModelOverrides, ModelRequest, Selection},
    turn::TurnError,
};
use hermes_protocol::ModelTestReport;

const QUESTION: &str = "Reply with the one word: ready";
const TIMEOUT: Duration = Duration::from_mins(1);
/// Enough for a model that thinks before it says one word.
const MAX_TOKENS: u32 = 1024;
const MAX_REPLY_CHARS: usize = 200;

pub(super) async fn test_model(agent: &Agent) -> ModelTestReport {
    let began = Instant::now();
    let overrides = ModelOverrides {
        model: agent.policy().model().map(str::to_owned),
        ..ModelOverrides::default()
    };
    let mut report = ModelTestReport {
        ok: false,
        model: overrides.model.clone(),
        provider: None,
        reply: None,
        error: None,
        elapsed_ms: 0,
    };
    match agent.find_model(&overrides).await {
        Ok(selection) => {
            report.model = Some(selection.endpoint.model.clone());
            report.provider = Some(selection.endpoint.provider.clone());
            match ask(&selection).await {
                Ok(reply) => {
                    report.ok = true;
                    report.reply = Some(reply);
                }
                Err(error) => report.error = Some(describe(agent, &error)),
            }
        }
        Err(error) => {
            report.error = Some(describe(agent, &ConversationError::NoModel(error)));
        }
    }
    report.elapsed_ms = super::servers::elapsed_ms(began);
    report
}

async fn ask(selection: &Selection) -> Result<String, ConversationError> {
    let messages = [Message::user(QUESTION)];
    let request = ModelRequest {
        messages: &messages,
        max_tokens: Some(MAX_TOKENS),
        ..ModelRequest::default()
    };
    let mut ignore = |_| {};
    let reply = selection.model.complete(&request, &mut ignore);
    match tokio::time::timeout(TIMEOUT, reply).await {
        Ok(Ok(reply)) => Ok(reply.text.trim().chars().take(MAX_REPLY_CHARS).collect()),
        Ok(Err(error)) => Err(ConversationError::Turn(TurnError::Model(error))),
        Err(_) => Err(ConversationError::Turn(TurnError::Model(
            hermes_agent::model::ModelError {
                provider: selection.endpoint.provider.clone(),
                problem: hermes_agent::model::ModelProblem::TimedOut {
                    after: TIMEOUT,
                    again: false,
                },
            },
        ))),
    }
}

fn describe(agent: &Agent, error: &ConversationError) -> String {
    let settings = agent.settings();
    let text = error.advise(hosting_tenant(&settings));
    agent.redactor().redact(&text).into_owned()
}
