//! Decisions about approvals of runs.

use hermes_agent::{
    approval::{FormReply, SubmitOutcome, SubmittedDecision},
    server_requests::elicitation::{FormRequest, LinkRequest},
};
use hermes_config::Redactor;
use hermes_protocol::{
    ApprovalChoice, ApprovalDecision, ApprovalOutcome, DecisionConflict, FormAnswer, RequestedForm,
    RunEvent, WrongAnswer,
};
use hermes_store::{
    StoreError, runtime,
    runtime::{ApprovalAnswer, NewApproval},
};
use serde_json::Map;

use super::{Runs, elicitation::ServerQuestion};

/// Recorded as answerer.
const ANSWERED_BY: &str = "api";
/// Longest reason for the agent, in characters.
const MAX_REASON_CHARS: usize = 280;
/// A larger form is not told: nobody fills it in.
const MAX_SCHEMA_BYTES: usize = 64 * 1024;
/// A longer address is not told as one: it stands in the text of the approval.
const MAX_URL_BYTES: usize = 8 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum DecideError {
    #[error("unknown run")]
    NotFound,
    #[error("the run has ended; nothing can be decided any more")]
    NotActive,
    #[error("no such approval is pending: it was decided before, or has expired")]
    NotPending,
    #[error("this cannot be allowed permanently; answer `once`, `session` or `deny`")]
    NotPermanent,
    #[error("this is a form: `content` has to bring its answers; or answer `deny`")]
    NeedsAnswers,
    #[error("this is not a form; leave `content` and `cancel` out")]
    NotForm,
    #[error(transparent)]
    WrongAnswer(#[from] WrongAnswer),
    #[error(transparent)]
    Conflict(#[from] DecisionConflict),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Runs {
    /// Submits a decision about one approval that a turn of this process waits for. The first one counts.
    pub fn decide_approval(&self, id: &str, decision: SubmittedDecision) -> SubmitOutcome {
        self.inner.decisions.submit(id, decision)
    }

    /// Decides pending approvals of a run. The first answer counts. Returns how many were decided.
    pub async fn decide(
        &self,
        run: &str,
        decision: &ApprovalDecision,
    ) -> Result<usize, DecideError> {
        let store = &self.inner.parts.store;
        let found = store.run(run).await?.ok_or(DecideError::NotFound)?;
        if found.status.is_final() {
            return Err(DecideError::NotActive);
        }
        let mut open = store.open_approvals_of_run(run).await?;
        match &decision.approval_id {
            Some(id) => open.retain(|question| question.id == *id),
            None if decision.all => {}
            None => open.truncate(1),
        }
        let reason = decision
            .reason
            .as_deref()
            .map(|reason| reason.chars().take(MAX_REASON_CHARS).collect::<String>());
        let answer = decision.form_answer()?;
        let mut decided = 0;
        for question in open {
            if let Some(answer) = &answer {
                self.check_form_answer(&question.id, answer)?;
            }
            let given = SubmittedDecision {
                reason: reason.clone(),
                reply: answer.clone().map(form_reply),
                ..SubmittedDecision::new(stored_answer(decision.choice), ANSWERED_BY)
            };
            match self.inner.decisions.submit(&question.id, given) {
                SubmitOutcome::Accepted => decided += 1,
                SubmitOutcome::NotPermanent => return Err(DecideError::NotPermanent),
                SubmitOutcome::NeedsAnswers => return Err(DecideError::NeedsAnswers),
                SubmitOutcome::NotWaiting | SubmitOutcome::Refused => {}
            }
        }
        if decided == 0 {
            return Err(DecideError::NotPending);
        }
        Ok(decided)
    }

    /// An answer that the form does not take leaves it open.
    fn check_form_answer(&self, approval: &str, answer: &FormAnswer) -> Result<(), DecideError> {
        let request = match self.inner.questions.find(approval) {
            Some(ServerQuestion::Form(request)) => request,
            // A page has no fields: it can only be left.
            Some(ServerQuestion::Link(_)) if *answer == FormAnswer::Cancel => return Ok(()),
            Some(ServerQuestion::Link(_)) | None => return Err(DecideError::NotForm),
        };
        let FormAnswer::Content(content) = answer else {
            return Ok(());
        };
        requested_form(&request).check(content)?;
        let checked = request.form.check(content.clone());
        checked.map(drop).map_err(|(field, wrong)| {
            DecideError::WrongAnswer(WrongAnswer {
                field: field.name.clone(),
                reason: wrong.to_string(),
            })
        })
    }
}

fn form_reply(answer: FormAnswer) -> FormReply {
    match answer {
        FormAnswer::Content(content) => FormReply::Answers(content),
        FormAnswer::Cancel => FormReply::Dismissed,
    }
}

fn requested_form(request: &FormRequest) -> RequestedForm {
    RequestedForm {
        server: request.server.to_string(),
        message: request.message.clone(),
        schema: request.form.schema.clone(),
        url: None,
    }
}

fn requested_page(request: &LinkRequest) -> RequestedForm {
    RequestedForm {
        server: request.server.to_string(),
        message: request.message.clone(),
        schema: Map::new(),
        url: Some(request.url.clone()),
    }
}

/// The form of a question, or its page, if it is one that can be told.
fn told_form(question: Option<ServerQuestion>) -> Option<RequestedForm> {
    match question? {
        ServerQuestion::Form(request) => {
            let form = requested_form(&request);
            let size = serde_json::to_string(&form.schema).map_or(usize::MAX, |text| text.len());
            (size <= MAX_SCHEMA_BYTES).then_some(form)
        }
        ServerQuestion::Link(request) => {
            (request.url.len() <= MAX_URL_BYTES).then(|| requested_page(&request))
        }
    }
}

fn stored_answer(choice: ApprovalChoice) -> ApprovalAnswer {
    match choice {
        ApprovalChoice::Once => ApprovalAnswer::Once,
        ApprovalChoice::Session => ApprovalAnswer::Session,
        ApprovalChoice::Always => ApprovalAnswer::Always,
        ApprovalChoice::Deny => ApprovalAnswer::Deny,
    }
}

/// The event that tells what waits. Nobody can say yes to a form without its answers.
pub(super) fn request_event(
    approval: &NewApproval,
    needs_answers: bool,
    question: Option<ServerQuestion>,
    redactor: &Redactor,
) -> RunEvent {
    let mut choices = ApprovalChoice::ALL.to_vec();
    choices.retain(|choice| match choice {
        ApprovalChoice::Deny => true,
        ApprovalChoice::Always => approval.allow_permanent && !needs_answers,
        _ => !needs_answers,
    });
    let mut form = told_form(question);
    if let Some(form) = &mut form {
        form.visit_text(&mut |text| *text = redactor.redact(text).into_owned());
    }
    RunEvent::ApprovalRequest {
        approval_id: approval.id.clone(),
        command: approval.command.clone(),
        description: approval.description.clone(),
        choices,
        form,
    }
}

/// The event that tells how an approval ended. One that nobody answered counts as denied.
pub(super) fn responded_event(id: &str, outcome: runtime::ApprovalOutcome) -> RunEvent {
    let (choice, outcome) = match outcome {
        runtime::ApprovalOutcome::Answered(answer) => {
            let choice = match answer {
                ApprovalAnswer::Once => ApprovalChoice::Once,
                ApprovalAnswer::Session => ApprovalChoice::Session,
                ApprovalAnswer::Always => ApprovalChoice::Always,
                ApprovalAnswer::Deny => ApprovalChoice::Deny,
            };
            (choice, choice.into())
        }
        runtime::ApprovalOutcome::Expired => (ApprovalChoice::Deny, ApprovalOutcome::Expired),
        runtime::ApprovalOutcome::Cancelled => (ApprovalChoice::Deny, ApprovalOutcome::Cancelled),
    };
    RunEvent::ApprovalResponded {
        approval_id: id.to_owned(),
        choice,
        outcome,
    }
}
