//! The trait of built-in tools: definition, concurrency, and calls.

use std::{path::PathBuf, sync::Arc};

use futures::future::BoxFuture;
use hermes_config::Home;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{
    approval::{Approvals, CommandContext, OtherDirectories, ProtectedPaths, WrittenFiles},
    message::Image,
    model::ToolDefinition,
};

pub trait Tool: Send + Sync {
    /// The definition for the model. The name never changes.
    fn definition(&self) -> ToolDefinition;

    fn toolset(&self) -> &'static str;

    /// Which other calls it may run in parallel with, by its arguments.
    fn concurrency(&self, _arguments: &Map<String, Value>, _context: &ToolContext) -> Concurrency {
        Concurrency::Exclusive
    }

    /// Runs it. Cancellation is by `context.cancel`; the future may also be dropped.
    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput>;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Concurrency {
    /// Runs alone: it waits for earlier calls, and later ones wait for it.
    Exclusive,
    /// Runs in parallel with other parallel calls.
    Parallel,
    /// Runs in parallel except with calls on a path equal to, above or below this one.
    ParallelExceptPath(PathBuf),
}

impl Concurrency {
    /// Whether two calls may run at the same time.
    pub fn can_run_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exclusive, _) | (_, Self::Exclusive) => false,
            (Self::ParallelExceptPath(one), Self::ParallelExceptPath(two)) => {
                !one.starts_with(two) && !two.starts_with(one)
            }
            _ => true,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// For the model.
    pub text: String,
    pub is_error: bool,
    /// Whether a long text may be moved to a file; not for a tool with its own limit.
    pub may_be_persisted: bool,
    /// The tool that returned text from outside. The model is told to treat it as data.
    pub untrusted_source: Option<Arc<str>>,
    /// Images for a model with vision. The text names their files.
    pub images: Vec<Image>,
}

impl ToolOutput {
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_error: false,
            may_be_persisted: true,
            untrusted_source: None,
            images: Vec::new(),
        }
    }

    /// A successful JSON result.
    pub fn json(value: &Value) -> Self {
        Self::text(value.to_string())
    }

    /// A successful result with untrusted text.
    pub fn from_untrusted(tool: &str, text: impl Into<String>) -> Self {
        Self {
            untrusted_source: Some(tool.into()),
            ..Self::text(text)
        }
    }

    /// A failure; the model gets `{"error": …}`.
    pub fn error(message: impl Into<String>) -> Self {
        let text = serde_json::json!({"error": message.into()}).to_string();
        Self {
            text,
            is_error: true,
            may_be_persisted: true,
            untrusted_source: None,
            images: Vec::new(),
        }
    }
}

#[derive(Clone)]
pub struct ToolContext {
    pub home: Home,
    pub cwd: PathBuf,
    /// The session, as its caller names it.
    pub session: Arc<str>,
    /// The call's id, unique in the session.
    pub call_id: Arc<str>,
    pub cancel: CancellationToken,
    pub approvals: Arc<Approvals>,
    /// Receives progress lines.
    pub progress: ProgressSink,
}

impl ToolContext {
    pub fn protected_paths(&self) -> ProtectedPaths {
        ProtectedPaths::for_home(self.home.path())
    }

    /// The context of a command that runs in a directory.
    pub fn command_context(&self, directory: PathBuf) -> CommandContext {
        CommandContext {
            written_files: WrittenFiles::default(),
            directory,
            protected_paths: self.protected_paths(),
            other_directories: OtherDirectories::default(),
        }
    }
}

/// Receives a progress line of a call.
pub type ProgressSink = Arc<dyn Fn(&str) + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_on_the_same_or_nested_paths_do_not_mix() {
        let path = |text: &str| Concurrency::ParallelExceptPath(text.into());
        assert!(path("/a/b").can_run_with(&path("/a/c")));
        assert!(path("/a/bc").can_run_with(&path("/a/b")));
        assert!(!path("/a").can_run_with(&path("/a/b")));
        assert!(!path("/a/b").can_run_with(&path("/a/b")));
        assert!(path("/a").can_run_with(&Concurrency::Parallel));
        assert!(!Concurrency::Parallel.can_run_with(&Concurrency::Exclusive));
    }
}
