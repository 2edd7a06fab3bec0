//! The report of a run: the message for the user, where it goes, and the stored document.

use std::fmt::Write as _;

use futures::future::BoxFuture;
use hermes_config::Settings;
use hermes_store::cron::{DeliveryRecord, Job};
use jiff::Zoned;
use serde_json::Value;

/// The heading above the message in the stored document.
const RESPONSE_HEADING: &str = "## Response";

/// Replies that mean "nothing to deliver".
const SILENT_REPLIES: [&str; 3] = ["[SILENT]", "SILENT", "NO_REPLY"];

#[derive(Debug, Clone, Default)]
pub(super) struct RunReport {
    /// The prompt of the model, or the script.
    pub(super) prompt: String,
    pub(super) text: String,
    pub(super) error: Option<String>,
    /// The session, if a model was used.
    pub(super) session: Option<String>,
}

impl RunReport {
    pub(super) fn failed(error: impl Into<String>) -> Self {
        Self {
            error: Some(error.into()),
            ..Self::default()
        }
    }

    /// The message to deliver; none for a silent reply. Failures are always delivered.
    pub(super) fn delivery_text(&self, job: &Job, settings: &Settings) -> Option<String> {
        let text = match &self.error {
            Some(error) => format!("The cron job failed: {error}"),
            None if is_silent(&self.text) => return None,
            None => self.text.trim().to_owned(),
        };
        let wraps = settings.document["cron"]["wrap_response"] != Value::Bool(false);
        Some(if wraps {
            format!(
                "Cron job: {}\n\n{text}\n\n(job `{}`; `hermes cron` changes or stops it)",
                job.name(),
                job.id()
            )
        } else {
            text
        })
    }

    pub(super) fn to_document(&self, job: &Job, began: &Zoned) -> String {
        let mut text = format!(
            "# Cron job: {}\n\n- Job: {}\n- Run: {}\n- Schedule: {}\n",
            job.name(),
            job.id(),
            began.strftime("%Y-%m-%d %H:%M:%S %Z"),
            job.schedule_display(),
        );
        if let Some(session) = &self.session {
            let _ = writeln!(text, "- Session: {session}");
        }
        if !self.prompt.is_empty() {
            let _ = writeln!(text, "\n## Prompt\n\n{}", self.prompt.trim());
        }
        if let Some(error) = &self.error {
            let _ = writeln!(text, "\n## Error\n\n{}", error.trim());
        }
        let _ = writeln!(text, "\n{RESPONSE_HEADING}\n\n{}", self.text.trim());
        text
    }
}

/// The message in a stored document; all of it, if another program wrote it.
pub(super) fn extract_message(document: &str) -> &str {
    match document.rsplit_once(&format!("\n{RESPONSE_HEADING}\n")) {
        Some((_, message)) => message.trim(),
        None => document.trim(),
    }
}

/// Whether a message is silent: as a whole, in its first or in its last line.
fn is_silent(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next();
    let last = lines.next_back();
    let is_word = |line: &str| SILENT_REPLIES.contains(&line);
    first.is_none_or(is_word) || last.is_some_and(is_word)
}

/// Delivers the messages of jobs.
pub trait Delivery: Send + Sync {
    /// Where the messages of a job go. None if they stay in the home.
    fn targets(&self, job: &Job) -> Vec<String>;

    /// Delivers a message to these targets. What became of it, in their order.
    fn deliver<'a>(
        &'a self,
        targets: Vec<String>,
        text: &'a str,
    ) -> BoxFuture<'a, Vec<DeliveryRecord>>;
}

/// What was not delivered and why, in one text for the user.
pub(super) fn describe_failures(deliveries: &[DeliveryRecord]) -> Option<String> {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for delivery in deliveries {
        let Some(error) = delivery.error.as_deref() else {
            continue;
        };
        let target = format!("`{}`", delivery.target);
        match reasons.iter_mut().find(|(known, _)| *known == error) {
            Some((_, targets)) => targets.push(target),
            None => reasons.push((error, vec![target])),
        }
    }
    let texts: Vec<String> = reasons
        .into_iter()
        .map(|(error, targets)| format!("{}: {error}", targets.join(", ")))
        .collect();
    (!texts.is_empty()).then(|| format!("not delivered to {}", texts.join("; ")))
}

/// Delivers nothing: messages are only stored with the output of their job.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalDelivery;

impl Delivery for LocalDelivery {
    fn targets(&self, job: &Job) -> Vec<String> {
        let has_origin = job.get("origin").is_some_and(|origin| !origin.is_null());
        let targets = delivery_targets(job).into_iter();
        // Without an origin chat, the message stays in the home.
        targets
            .filter(|target| target != "local" && (target != "origin" || has_origin))
            .collect()
    }

    fn deliver<'a>(
        &'a self,
        targets: Vec<String>,
        _text: &'a str,
    ) -> BoxFuture<'a, Vec<DeliveryRecord>> {
        let reason =
            "that needs the gateway, which did not run this job; the message is stored in the home";
        let failed = targets
            .into_iter()
            .map(|target| DeliveryRecord::failed(target, reason));
        Box::pin(std::future::ready(failed.collect()))
    }
}

/// The targets of a job, each once.
fn delivery_targets(job: &Job) -> Vec<String> {
    let written = job
        .get("deliver")
        .and_then(Value::as_str)
        .unwrap_or("local");
    let mut targets: Vec<String> = Vec::new();
    for target in written.split(',').map(str::trim) {
        if !target.is_empty() && !targets.iter().any(|known| known == target) {
            targets.push(target.to_owned());
        }
    }
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_a_whole_line_at_either_end() {
        for text in [
            "",
            " \n ",
            "[SILENT]",
            " SILENT \n",
            "NO_REPLY",
            "[SILENT]\nNothing happened.",
            "All is well.\n\n[SILENT]\n",
        ] {
            assert!(is_silent(text), "{text:?}");
        }
        for text in [
            "The word [SILENT] is here.",
            "silent",
            "a\n[SILENT]\nb",
            "[SILENT] today",
        ] {
            assert!(!is_silent(text), "{text:?}");
        }
    }

    #[test]
    fn the_message_is_found_again_in_what_was_kept() {
        let document =
            "# Cron job: x\n\n## Prompt\n\n## Response\n\nno\n\n## Response\n\nThe news.\n";
        assert_eq!(extract_message(document), "The news.");
        assert_eq!(extract_message(" just text\n"), "just text");
    }

    use hermes_config::Home;
    use hermes_store::cron::{CronFile, NewJob, Schedule};
    use jiff::Zoned;
    use serde_json::json;

    async fn delivered(deliver: &str, origin: Option<Value>) -> Option<String> {
        let directory = tempfile::tempdir().unwrap();
        let now = Zoned::now();
        let new = NewJob {
            deliver: Some(deliver.into()),
            origin,
            ..NewJob::new("x", Schedule::parse("1h", &now).unwrap())
        };
        let home = Home::at(directory.path());
        let job = CronFile::change(&home, &now, |file| file.create(new, &now)).unwrap();
        let targets = LocalDelivery.targets(&job);
        describe_failures(&LocalDelivery.deliver(targets, "text").await)
    }

    #[tokio::test]
    async fn what_stays_in_the_home_is_delivered() {
        assert_eq!(delivered("local", None).await, None);
        assert_eq!(delivered("origin", None).await, None);
    }

    #[tokio::test]
    async fn what_goes_elsewhere_is_named_once() {
        let origin = Some(json!({"platform": "telegram", "chat_id": "1"}));
        let error = delivered("local, telegram,origin, telegram", origin).await;
        let error = error.unwrap();
        assert!(
            error.contains("to `telegram`, `origin`: that needs the gateway"),
            "{error}"
        );
    }
}
