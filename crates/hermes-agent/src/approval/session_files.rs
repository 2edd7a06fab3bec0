//! The files that were written in a session, also by earlier processes: what they did is read from the session's stored
//! calls when the first command is checked.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use futures::future::BoxFuture;
use hermes_config::sync::Mutex;
use tokio::sync::OnceCell;

use super::{CommandContext, OtherDirectories, ProtectedPaths};
use crate::approval::command::{
    classify, paths,
    written_files::{FileOrigin, WrittenFiles},
};

/// Something that was done in the session before this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PastCall {
    Command {
        line: String,
        directory: PathBuf,
        at: SystemTime,
    },
    /// A file that was written by its own tool, as the model named it.
    File { path: String, directory: PathBuf },
}

/// Reads what was done, in order.
pub(crate) type PastCallReader = Arc<dyn Fn() -> BoxFuture<'static, Vec<PastCall>> + Send + Sync>;

/// Clones share what is known.
#[derive(Clone, Default)]
pub(super) struct SessionFiles {
    written: Arc<Mutex<WrittenFiles>>,
    past: Option<PastCallReader>,
    is_past_read: Arc<OnceCell<()>>,
}

impl SessionFiles {
    /// A session that goes on.
    pub(super) fn with_past(past: PastCallReader) -> Self {
        Self {
            past: Some(past),
            ..Self::default()
        }
    }

    pub(super) fn record(&self, path: &Path) {
        self.written
            .lock()
            .add(path.to_owned(), FileOrigin::Session);
    }

    /// All that is known.
    pub(super) async fn known(&self, protected: &ProtectedPaths) -> WrittenFiles {
        if let Some(past) = &self.past {
            self.is_past_read
                .get_or_init(|| self.read_past(past, protected))
                .await;
        }
        self.written.lock().clone()
    }

    async fn read_past(&self, past: &PastCallReader, protected: &ProtectedPaths) {
        let calls = past().await;
        let protected = protected.clone();
        let replayed = tokio::task::spawn_blocking(move || replay(&calls, &protected)).await;
        match replayed {
            Ok(files) => self.written.lock().merge(&files),
            Err(error) => tracing::error!(%error, "reading the files of a session failed"),
        }
    }

    /// Adds what a line writes that is about to run.
    pub(super) fn record_line(&self, line: &str, context: &CommandContext) {
        let now = SystemTime::now();
        let written = classify::find_written_files(line, context);
        self.written.lock().merge_since(&written, now);
    }
}

/// What these calls have written.
fn replay(calls: &[PastCall], protected: &ProtectedPaths) -> WrittenFiles {
    let mut files = WrittenFiles::default();
    for call in calls {
        match call {
            PastCall::Command {
                line,
                directory,
                at,
            } => {
                let context = CommandContext {
                    directory: directory.clone(),
                    protected_paths: protected.clone(),
                    written_files: files.clone(),
                    other_directories: OtherDirectories::default(),
                };
                files.merge_since(&classify::find_written_files(line, &context), *at);
            }
            PastCall::File { path, directory } => {
                for path in paths::expand_paths(path, directory, protected) {
                    let real = path.canonicalize().unwrap_or(path);
                    files.add(real, FileOrigin::Session);
                }
            }
        }
    }
    files
}
