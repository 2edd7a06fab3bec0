//! Asks the person whether something risky may run.

use std::sync::Arc;

use futures::future::BoxFuture;
use hermes_agent::{
    approval::{ApprovalRequest, Approver, Decision, PublishedApprover},
    printable::printable,
};

use crate::{
    commands::chat::{
        prompts::queue::{OpenPrompt, PromptQueue},
        rendering::{
            style::{Colour, ColourMode, Style},
            wrap,
        },
        screen::Screen,
    },
    context::Context,
    failure::Failure,
};

/// The person at the terminal.
struct ApprovalPrompt {
    queue: PromptQueue,
    paint: ColourMode,
}

impl ApprovalPrompt {
    fn new(queue: PromptQueue, paint: ColourMode) -> Self {
        Self { queue, paint }
    }
}

/// The person, whose questions other processes of the home may answer in their place.
pub(crate) fn published_approver(
    context: &Context,
    queue: &PromptQueue,
    screen: &Screen,
) -> Arc<PublishedApprover> {
    let person = Arc::new(ApprovalPrompt::new(queue.clone(), screen.paint()));
    let screen = screen.clone();
    let published = PublishedApprover::new(context.home.clone(), person);
    Arc::new(published.on_notice(move |line| screen.note(line)))
}

impl Approver for ApprovalPrompt {
    fn request_approval(&self, request: ApprovalRequest) -> BoxFuture<'_, Decision> {
        let paint = self.paint;
        Box::pin(async move {
            let decision = self
                .queue
                .prompt(move |prompt| ask_approval(prompt, &request, paint));
            decision.await.unwrap_or(Decision::Denied { reason: None })
        })
    }
}

fn ask_approval(
    prompt: &OpenPrompt<'_>,
    request: &ApprovalRequest,
    paint: ColourMode,
) -> Result<Decision, Failure> {
    let yellow = Style::bold().coloured(Colour::Yellow);
    let head = format!("{} wants to run:", wrap::first_line(&request.tool, 60));
    prompt.say(&paint.paint(yellow, &head));
    for line in printable(&request.subject).lines() {
        prompt.say(&format!("  {line}"));
    }
    prompt.say(&paint.paint(
        Style::faint(),
        &format!("  why it is asked: {}", request.reason),
    ));
    if let Some(advice) = &request.hint {
        prompt.say(&paint.paint(Style::faint(), &format!("  {advice}")));
    }
    let question = if request.can_allow_always {
        "[o]nce, [s]ession, [a]lways, [d]eny (a reason may follow)"
    } else {
        "[o]nce, [s]ession, [d]eny (a reason may follow)"
    };
    loop {
        let answer = prompt.read_line(question)?;
        match parse_decision(&answer) {
            Some(Decision::Always) if !request.can_allow_always => {}
            Some(decision) => return Ok(decision),
            None => {}
        }
        prompt.say("Please answer with one of these words or their first letters.");
    }
}

/// What an answer means.
fn parse_decision(answer: &str) -> Option<Decision> {
    let answer = answer.trim();
    let (word, rest) = answer
        .split_once(char::is_whitespace)
        .unwrap_or((answer, ""));
    let reason = Some(rest.trim().to_owned()).filter(|reason| !reason.is_empty());
    match (word.to_lowercase().trim_end_matches([',', ':']), &reason) {
        ("d" | "deny" | "n" | "no" | "cancel", _) => Some(Decision::Denied { reason }),
        ("o" | "once" | "y" | "yes" | "ok" | "approve", None) => Some(Decision::Once),
        ("s" | "session", None) => Some(Decision::Session),
        ("a" | "always", None) => Some(Decision::Always),
        // More words would be a sentence, and no clear yes.
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_words_or_letters() {
        let denied = |reason: Option<&str>| Decision::Denied {
            reason: reason.map(str::to_owned),
        };
        for (answer, decision) in [
            ("o", Some(Decision::Once)),
            (" Once ", Some(Decision::Once)),
            ("yes", Some(Decision::Once)),
            ("s", Some(Decision::Session)),
            ("always", Some(Decision::Always)),
            ("d", Some(denied(None))),
            ("no, use git", Some(denied(Some("use git")))),
            ("deny too risky", Some(denied(Some("too risky")))),
            ("", None),
            ("yes but not that", None),
            ("maybe", None),
        ] {
            assert_eq!(parse_decision(answer), decision, "{answer:?}");
        }
    }
}
