//! A tool of the agent's own: what it tells the model, what it may run beside, and how it is called.

use std::{path::PathBuf, sync::Arc};

use futures::future::BoxFuture;
use hermes_config::Home;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use crate::{
    approval::{Approvals, Landmarks, Scene, Written},
    message::Image,
    model::ToolDefinition,
};

/// A built-in tool.
pub trait Tool: Send + Sync {
    /// What the model is told. The name never changes.
    fn definition(&self) -> ToolDefinition;

    /// The toolset it belongs to.
    fn toolset(&self) -> &'static str;

    /// What it may run beside, judged by its arguments.
    fn company(&self, _arguments: &Map<String, Value>, _context: &ToolContext) -> Company {
        Company::Alone
    }

    /// Runs it. Cancellation is by `context.cancel`; the future may also be dropped.
    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput>;
}

/// What a call may run beside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Company {
    /// Nothing: it waits for what came before, and what comes after waits for it.
    Alone,
    /// Any other call that may.
    Any,
    /// Any other call that may and that touches no path equal to, above or below this one.
    AnyButPath(PathBuf),
}

impl Company {
    /// Whether two calls may run at the same time.
    pub fn mixes_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Alone, _) | (_, Self::Alone) => false,
            (Self::AnyButPath(one), Self::AnyButPath(two)) => {
                !one.starts_with(two) && !two.starts_with(one)
            }
            _ => true,
        }
    }
}

/// What a tool returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOutput {
    /// For the model.
    pub text: String,
    /// Whether it failed.
    pub is_error: bool,
    /// Whether a long text may be put into a file; a tool with a limit of its own says no.
    pub may_be_persisted: bool,
    /// The tool through which the text came in from outside. The model is told to take it for data.
    pub outside: Option<Arc<str>>,
    /// Images, for a model that sees. The text says where they are kept.
    pub images: Vec<Image>,
}

impl ToolOutput {
    /// It worked.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_error: false,
            may_be_persisted: true,
            outside: None,
            images: Vec::new(),
        }
    }

    /// It worked; the result is an object.
    pub fn json(value: &Value) -> Self {
        Self::text(value.to_string())
    }

    /// It worked; the text was written by somebody outside.
    pub fn from_outside(tool: &str, text: impl Into<String>) -> Self {
        Self {
            outside: Some(tool.into()),
            ..Self::text(text)
        }
    }

    /// It failed; the model gets `{"error": …}`.
    pub fn error(message: impl Into<String>) -> Self {
        let text = serde_json::json!({"error": message.into()}).to_string();
        Self {
            text,
            is_error: true,
            may_be_persisted: true,
            outside: None,
            images: Vec::new(),
        }
    }
}

/// What a call is surrounded by.
#[derive(Clone)]
pub struct ToolContext {
    /// The home the agent works for.
    pub home: Home,
    /// The working directory of the session.
    pub cwd: PathBuf,
    /// The session, as its surface names it.
    pub session: Arc<str>,
    /// The call's id, unique in the session.
    pub call_id: Arc<str>,
    /// Ends the call.
    pub cancel: CancellationToken,
    /// What needs a decision, and who decides.
    pub approvals: Arc<Approvals>,
    /// Is told how far the call is.
    pub progress: ProgressSink,
}

impl ToolContext {
    /// The directories that give paths their meaning.
    pub fn landmarks(&self) -> Landmarks {
        Landmarks {
            hermes_home: Some(self.home.path().to_path_buf()),
            user_home: std::env::home_dir(),
        }
    }

    /// The surroundings of a command that runs in a directory.
    pub fn scene(&self, directory: PathBuf) -> Scene {
        Scene {
            written: Written::default(),
            directory,
            landmarks: self.landmarks(),
        }
    }
}

/// Takes a line about the progress of a call.
pub type ProgressSink = Arc<dyn Fn(&str) + Send + Sync>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_on_the_same_or_nested_paths_do_not_mix() {
        let path = |text: &str| Company::AnyButPath(text.into());
        assert!(path("/a/b").mixes_with(&path("/a/c")));
        assert!(path("/a/bc").mixes_with(&path("/a/b")));
        assert!(!path("/a").mixes_with(&path("/a/b")));
        assert!(!path("/a/b").mixes_with(&path("/a/b")));
        assert!(path("/a").mixes_with(&Company::Any));
        assert!(!Company::Any.mixes_with(&Company::Alone));
    }
}
