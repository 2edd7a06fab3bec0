//! Elicitation by approval, for user interfaces that only take yes or no.
//!
//! Yes to a form means its defaults, and yes for boolean fields. A form that needs more is declined: nobody
//! could fill it in. Yes to a link means that it was opened.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use hermes_config::{Redactor, ServerName};
use hermes_store::SessionId;
use serde_json::{Map, Value};

use super::{ElicitationAnswer, ElicitationUi, ElicitationUnavailable, FormRequest, LinkRequest};
use crate::approval::{ApprovalKind, ApprovalRequest, Approver};

/// Answers elicitation requests through an approver.
pub struct ApprovalElicitationUi {
    approver: Arc<dyn Approver>,
    session: SessionId,
    timeout: Duration,
    redactor: Redactor,
}

impl ApprovalElicitationUi {
    /// Asks this approver on behalf of a session, with this timeout.
    pub fn new(
        approver: Arc<dyn Approver>,
        session: SessionId,
        timeout: Duration,
        redactor: Redactor,
    ) -> Self {
        Self {
            approver,
            session,
            timeout,
            redactor,
        }
    }

    async fn request_consent<T>(
        &self,
        server: &ServerName,
        subject: &str,
        yes: T,
    ) -> ElicitationAnswer<T> {
        let request = ApprovalRequest {
            kind: ApprovalKind::Mcp,
            tool: server.to_string(),
            subject: self.redactor.redact(subject).into_owned(),
            reason: format!("the MCP server `{server}` asks"),
            rules: Vec::new(),
            can_allow_always: false,
            session: Some(self.session.clone()),
            timeout: Some(self.timeout),
            ..ApprovalRequest::default()
        };
        match tokio::time::timeout(self.timeout, self.approver.request_approval(request)).await {
            Ok(decision) if decision.is_allowed() => ElicitationAnswer::Accepted(yes),
            Ok(_) => ElicitationAnswer::Declined,
            Err(_) => ElicitationAnswer::Cancelled,
        }
    }
}

impl ElicitationUi for ApprovalElicitationUi {
    fn fill_form(
        &self,
        request: FormRequest,
    ) -> BoxFuture<'_, Result<ElicitationAnswer<Map<String, Value>>, ElicitationUnavailable>> {
        Box::pin(async move {
            let Some(answers) = request.form.default_answers() else {
                let server = &request.server;
                tracing::info!(%server, "declined an elicitation form that a yes cannot fill in");
                return Ok(ElicitationAnswer::Declined);
            };
            let mut subject = request.message;
            for (name, value) in &answers {
                // Writing to a string cannot fail.
                let _ = write!(subject, "\n{name}: {value}");
            }
            Ok(self
                .request_consent(&request.server, &subject, answers)
                .await)
        })
    }

    fn confirm_link(
        &self,
        request: LinkRequest,
    ) -> BoxFuture<'_, Result<ElicitationAnswer<()>, ElicitationUnavailable>> {
        Box::pin(async move {
            let subject = format!("{}\n{}", request.message, request.url);
            Ok(self.request_consent(&request.server, &subject, ()).await)
        })
    }
}
