//! Elicitation by approval, for user interfaces that only take yes or no.
//!
//! Yes to a form means its defaults, and yes for boolean fields. A form that needs more is declined: nobody
//! could fill it in. Yes to a link means that it was opened.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use hermes_config::{Redactor, ServerName};
use hermes_store::SessionId;
use serde_json::{Map, Value};

use super::{Answer, FieldKind, Form, FormRequest, LinkRequest, NotAsked, Person};
use crate::approval::{ApprovalKind, ApprovalRequest, Approver};

/// Answers elicitation requests through an approver.
pub struct ByApproval {
    approver: Arc<dyn Approver>,
    session: SessionId,
    patience: Duration,
    redactor: Redactor,
}

impl ByApproval {
    /// Asks this approver on behalf of a session, with this timeout.
    pub fn new(
        approver: Arc<dyn Approver>,
        session: SessionId,
        patience: Duration,
        redactor: Redactor,
    ) -> Self {
        Self {
            approver,
            session,
            patience,
            redactor,
        }
    }

    async fn agree<T>(&self, server: &ServerName, subject: &str, yes: T) -> Answer<T> {
        let request = ApprovalRequest {
            kind: ApprovalKind::Mcp,
            tool: server.to_string(),
            subject: self.redactor.redact(subject).into_owned(),
            reason: format!("the MCP server `{server}` asks"),
            rules: Vec::new(),
            may_be_permanent: false,
            session: Some(self.session.clone()),
            patience: Some(self.patience),
            ..ApprovalRequest::default()
        };
        match tokio::time::timeout(self.patience, self.approver.ask(request)).await {
            Ok(decision) if decision.allows() => Answer::Accepted(yes),
            Ok(_) => Answer::Declined,
            Err(_) => Answer::Cancelled,
        }
    }
}

impl Person for ByApproval {
    fn fill_in(
        &self,
        request: FormRequest,
    ) -> BoxFuture<'_, Result<Answer<Map<String, Value>>, NotAsked>> {
        Box::pin(async move {
            let Some(answers) = agreed(&request.form) else {
                let server = &request.server;
                tracing::info!(%server, "declined an elicitation form that a yes cannot fill in");
                return Ok(Answer::Declined);
            };
            let mut subject = request.message;
            for (name, value) in &answers {
                // Writing to a string cannot fail.
                let _ = write!(subject, "\n{name}: {value}");
            }
            Ok(self.agree(&request.server, &subject, answers).await)
        })
    }

    fn visit(&self, request: LinkRequest) -> BoxFuture<'_, Result<Answer<()>, NotAsked>> {
        Box::pin(async move {
            let subject = format!("{}\n{}", request.message, request.url);
            Ok(self.agree(&request.server, &subject, ()).await)
        })
    }
}

/// The answers if somebody just agrees; `None` if that is not enough.
fn agreed(form: &Form) -> Option<Map<String, Value>> {
    let mut answers = Map::new();
    for field in &form.fields {
        let value = match (&field.default, &field.kind) {
            (Some(default), _) => Some(default.clone()),
            (None, FieldKind::Boolean) if field.is_required => Some(true.into()),
            (None, _) => None,
        };
        match value {
            Some(value) => {
                answers.insert(field.name.clone(), value);
            }
            None if field.is_required => return None,
            None => {}
        }
    }
    Some(answers)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn agreed_to(properties: &Value, required: &[&str]) -> Option<Value> {
        let schema = json!({"type": "object", "properties": properties, "required": required});
        agreed(&Form::read(&schema).unwrap()).map(Value::Object)
    }

    #[test]
    fn a_yes_means_the_defaults_and_no_more() {
        assert_eq!(agreed_to(&json!({}), &[]), Some(json!({})));
        let fields = json!({
            "sure": {"type": "boolean"}, "name": {"type": "string", "default": "x"},
            "age": {"type": "integer"},
        });
        assert_eq!(
            agreed_to(&fields, &["sure"]),
            Some(json!({"sure": true, "name": "x"}))
        );
        assert_eq!(agreed_to(&fields, &["age"]), None);
    }
}
