//! What a turn has said so far. The turn writes and never waits; the stream reads the newest.

use std::sync::Arc;

use hermes_config::sync::Mutex;
use tokio::sync::Notify;

use crate::platform::TaskState;

/// Steps that were not shown yet; older ones are left out.
const MAX_STEPS: usize = 32;

/// The writing end of an [`AnswerStream`](super::AnswerStream). Clones write to the same.
#[derive(Debug, Clone, Default)]
pub struct AnswerFeed {
    inner: Arc<FeedInner>,
}

#[derive(Debug, Default)]
struct FeedInner {
    content: Mutex<FeedContent>,
    changed: Notify,
}

#[derive(Debug, Clone, Default)]
pub(super) struct FeedContent {
    pub(super) text: String,
    pub(super) steps: Vec<AnswerStep>,
}

/// A step of a turn, such as a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AnswerStep {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) state: TaskState,
}

impl AnswerFeed {
    /// The answer goes on.
    pub fn push_text(&self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.inner.content.lock().text.push_str(text);
        self.inner.changed.notify_one();
    }

    /// The answer begins again: what was said so far was not it.
    pub fn begin_reply(&self) {
        self.inner.content.lock().text.clear();
    }

    /// A tool call began.
    pub fn start_step(&self, id: &str, title: &str) {
        let mut content = self.inner.content.lock();
        if content.steps.len() >= MAX_STEPS {
            content.steps.remove(0);
        }
        content.steps.push(AnswerStep {
            id: id.to_owned(),
            title: title.to_owned(),
            state: TaskState::InProgress,
        });
        drop(content);
        self.inner.changed.notify_one();
    }

    /// A tool call ended.
    pub fn end_step(&self, id: &str, is_error: bool) {
        let mut content = self.inner.content.lock();
        if let Some(step) = content.steps.iter_mut().find(|step| step.id == id) {
            step.state = if is_error {
                TaskState::Failed
            } else {
                TaskState::Complete
            };
        }
        drop(content);
        self.inner.changed.notify_one();
    }

    /// What there is now. Steps that have ended are told once.
    pub(super) fn take_snapshot(&self) -> FeedContent {
        let mut content = self.inner.content.lock();
        let snapshot = content.clone();
        content
            .steps
            .retain(|step| step.state == TaskState::InProgress);
        snapshot
    }

    pub(super) async fn changed(&self) {
        self.inner.changed.notified().await;
    }
}
