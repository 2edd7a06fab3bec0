//! The report of a run: the message for the user, and the stored document.

use std::fmt::Write as _;

use hermes_config::Settings;
use hermes_store::cron::Job;
use jiff::Zoned;
use serde_json::Value;

use crate::conversation::{TurnUsage, hosting_tenant};

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
    /// What the model used, also if the run failed afterwards.
    pub(super) usage: Option<TurnUsage>,
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
            let advice = match hosting_tenant(settings) {
                Some(tenant) => format!(
                    "its operator changes or stops it with `hermes tenant cron` for `{tenant}`"
                ),
                None => "`hermes cron` changes or stops it".to_owned(),
            };
            format!(
                "Cron job: {}\n\n{text}\n\n(job `{}`; {advice})",
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

#[cfg(test)]
mod tests {
    use hermes_config::Variables;
    use hermes_store::cron::{CronFile, NewJob, Schedule};

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
    fn a_message_says_who_can_stop_its_job() {
        let directory = tempfile::tempdir().unwrap();
        let home = hermes_config::Home::at(directory.path());
        let now = Zoned::now();
        let schedule = Schedule::parse("every 2h", &now).unwrap();
        let job = CronFile::change(&home, &now, |file| {
            file.create(NewJob::new("look", schedule), &now)
        });
        let job = job.unwrap();
        let report = RunReport {
            text: "The news.".into(),
            ..RunReport::default()
        };
        let text = |variables: &[(&str, &str)]| {
            let settings = Settings::parse("", Variables::from_pairs(variables.iter().copied()));
            report.delivery_text(&job, &settings.unwrap()).unwrap()
        };
        assert!(text(&[]).contains("`hermes cron` changes or stops it"));
        let hosted = text(&[("HERMES_TENANT_ID", "acme")]);
        assert!(
            hosted.contains("`hermes tenant cron` for `acme`"),
            "{hosted}"
        );
        assert!(!hosted.contains("`hermes cron`"), "{hosted}");
    }

    #[test]
    fn the_message_is_found_again_in_what_was_kept() {
        let document =
            "# Cron job: x\n\n## Prompt\n\n## Response\n\nno\n\n## Response\n\nThe news.\n";
        assert_eq!(extract_message(document), "The news.");
        assert_eq!(extract_message(" just text\n"), "just text");
    }
}
