//! Notices of background processes, added to the next user message.

use std::sync::{Arc, Mutex, PoisonError};

use crate::tools::process::{Notice, ProcessTable};

/// Notices that the model has not received yet.
#[derive(Clone, Default)]
pub(super) struct News(Arc<Mutex<Vec<Notice>>>);

impl News {
    pub(super) fn table(&self) -> Arc<ProcessTable> {
        let news = self.clone();
        Arc::new(ProcessTable::with_listener(move |notice| {
            let mut notices = news.0.lock().unwrap_or_else(PoisonError::into_inner);
            notices.push(notice);
        }))
    }

    /// Takes all notices as text; empty if there are none.
    pub(super) fn take(&self) -> String {
        let mut notices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let news: Vec<String> = notices.drain(..).map(|notice| tell(&notice)).collect();
        news.join("\n")
    }
}

fn tell(notice: &Notice) -> String {
    match notice {
        Notice::Ended {
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
        Notice::Matched {
            session_id,
            pattern,
            line,
        } => {
            format!("[The background process {session_id} printed a line with `{pattern}`: {line}]")
        }
    }
}
