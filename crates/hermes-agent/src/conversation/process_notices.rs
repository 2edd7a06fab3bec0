//! Notices of background processes, added to the next user message.

use std::sync::Arc;

use hermes_config::sync::Mutex;

use crate::tools::terminal::process::{ProcessNotice, ProcessTable};

/// Notices that the model has not received yet.
#[derive(Clone, Default)]
pub(super) struct ProcessNotices(Arc<Mutex<Vec<ProcessNotice>>>);

impl ProcessNotices {
    pub(super) fn process_table(&self) -> Arc<ProcessTable> {
        let news = self.clone();
        Arc::new(ProcessTable::with_listener(move |notice| {
            let mut notices = news.0.lock();
            notices.push(notice);
        }))
    }

    /// Takes all notices as text; empty if there are none.
    pub(super) fn take_text(&self) -> String {
        let mut notices = self.0.lock();
        let news: Vec<String> = notices
            .drain(..)
            .map(|notice| format_notice(&notice))
            .collect();
        news.join("\n")
    }
}

fn format_notice(notice: &ProcessNotice) -> String {
    match notice {
        ProcessNotice::Ended {
            session_id,
            command,
            exit_code,
            output,
        } => {
            let code =
                exit_code.map_or_else(|| "a signal".to_owned(), |code| format!("code {code}"));
            format!(
                "[The background process {session_id} (`{command}`) has ended with {code}. The end of its output:\n{output}]"
            )
        }
        ProcessNotice::Matched {
            session_id,
            pattern,
            line,
        } => {
            format!("[The background process {session_id} printed a line with `{pattern}`: {line}]")
        }
    }
}
