//! Questions of MCP servers to the people of a chat, or to those who watch a run: rows like approvals, which are shown as
//! forms and links.
//!
//! The question itself is kept here while its row is open, so that whoever shows the row can show the question.

use std::{collections::HashMap, fmt::Write as _, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use hermes_agent::{
    approval::{ApprovalKind, ApprovalRequest, FormReply, PublishedApprover, SubmittedDecision},
    server_requests::elicitation::{
        ElicitationAnswer, ElicitationUi, ElicitationUnavailable, FormRequest, LinkRequest,
    },
};
use hermes_config::{Redactor, ServerName, sync::Mutex};
use hermes_store::{
    SessionId,
    runtime::{ApprovalAnswer, new_approval_id},
};
use serde_json::{Map, Value};

/// Longest text of a row, in characters.
const MAX_SUBJECT_CHARS: usize = 3800;
/// The question ends so long before the server stops waiting, so that it is known to have expired.
const TIMEOUT_MARGIN: Duration = Duration::from_millis(500);

/// What a server asks.
#[derive(Debug, Clone)]
pub enum ServerQuestion {
    Form(FormRequest),
    Link(LinkRequest),
}

/// The open questions of runs, by the ids of their rows. Clones share them.
#[derive(Clone, Default)]
pub(super) struct OpenQuestions {
    by_id: Arc<Mutex<HashMap<String, ServerQuestion>>>,
}

impl OpenQuestions {
    pub(super) fn find(&self, id: &str) -> Option<ServerQuestion> {
        self.by_id.lock().get(id).cloned()
    }

    fn keep(&self, id: &str, question: ServerQuestion) -> OpenQuestionGuard {
        self.by_id.lock().insert(id.to_owned(), question);
        OpenQuestionGuard {
            questions: self.clone(),
            id: id.to_owned(),
        }
    }
}

/// Removes its question when dropped.
struct OpenQuestionGuard {
    questions: OpenQuestions,
    id: String,
}

impl Drop for OpenQuestionGuard {
    fn drop(&mut self) {
        self.questions.by_id.lock().remove(&self.id);
    }
}

/// Asks the people of a chat, or those who watch the run.
pub(super) struct RunElicitationUi {
    pub(super) approver: Arc<PublishedApprover>,
    pub(super) questions: OpenQuestions,
    pub(super) session: SessionId,
    pub(super) redactor: Redactor,
}

impl RunElicitationUi {
    /// What somebody decides; `None` if nobody does in time.
    async fn request_decision(
        &self,
        server: &ServerName,
        subject: &str,
        question: ServerQuestion,
    ) -> Option<SubmittedDecision> {
        let (timeout, needs_answers) = match &question {
            ServerQuestion::Form(form) => (form.timeout, form.form.default_answers().is_none()),
            ServerQuestion::Link(link) => (link.timeout, false),
        };
        let timeout = timeout.saturating_sub(TIMEOUT_MARGIN.min(timeout / 10));
        let id = new_approval_id();
        let _kept = self.questions.keep(&id, question);
        let subject = self.redactor.redact(subject);
        let request = ApprovalRequest {
            kind: ApprovalKind::Mcp,
            tool: server.to_string(),
            subject: subject.chars().take(MAX_SUBJECT_CHARS).collect(),
            reason: format!("the MCP server `{server}` asks"),
            id: Some(id),
            needs_answers,
            session: Some(self.session.clone()),
            timeout: Some(timeout),
            ..ApprovalRequest::default()
        };
        let decided = self.approver.request_decision(&request);
        tokio::time::timeout(timeout, decided).await.ok()
    }
}

impl ElicitationUi for RunElicitationUi {
    fn fill_form(
        &self,
        mut request: FormRequest,
    ) -> BoxFuture<'_, Result<ElicitationAnswer<Map<String, Value>>, ElicitationUnavailable>> {
        Box::pin(async move {
            request.message = self.redactor.redact(&request.message).into_owned();
            let mut subject = request.message.clone();
            for field in &request.form.fields {
                // Writing to a string cannot fail.
                let _ = write!(subject, "\n- {}", field.title);
                if let Some(default) = field.default.as_ref().filter(|_| !field.is_sensitive) {
                    let _ = write!(subject, ": {}", field.format_value(default));
                }
            }
            let defaults = request.form.default_answers();
            let server = request.server.clone();
            let question = ServerQuestion::Form(request);
            let Some(given) = self.request_decision(&server, &subject, question).await else {
                return Ok(ElicitationAnswer::Cancelled);
            };
            Ok(match (given.answer, given.reply) {
                (ApprovalAnswer::Deny, Some(FormReply::Dismissed)) => ElicitationAnswer::Cancelled,
                (ApprovalAnswer::Deny, _) => ElicitationAnswer::Declined,
                (_, Some(FormReply::Answers(answers))) => ElicitationAnswer::Accepted(answers),
                // A bare yes is only taken where the defaults are enough.
                (_, _) => defaults.map_or(ElicitationAnswer::Declined, ElicitationAnswer::Accepted),
            })
        })
    }

    fn confirm_link(
        &self,
        mut request: LinkRequest,
    ) -> BoxFuture<'_, Result<ElicitationAnswer<()>, ElicitationUnavailable>> {
        Box::pin(async move {
            request.message = self.redactor.redact(&request.message).into_owned();
            let subject = format!("{}\n{}", request.message, request.url);
            let server = request.server.clone();
            let question = ServerQuestion::Link(request);
            let given = self.request_decision(&server, &subject, question).await;
            Ok(match given.map(|given| (given.answer, given.reply)) {
                None | Some((ApprovalAnswer::Deny, Some(FormReply::Dismissed))) => {
                    ElicitationAnswer::Cancelled
                }
                Some((ApprovalAnswer::Deny, _)) => ElicitationAnswer::Declined,
                Some(_) => ElicitationAnswer::Accepted(()),
            })
        })
    }
}
