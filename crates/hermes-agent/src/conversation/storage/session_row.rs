//! The session's row with its prompt and the git repository around its directory, and user messages.

use std::{
    fs,
    path::{Path, PathBuf},
};

use hermes_store::{NewMessage, SessionId};
use jiff::Zoned;
use serde_json::{Value, json};

use crate::{
    conversation::{
        Agent, Conversation, ConversationError, prompt, state::SessionRow, storage::message_rows,
    },
    message::{Content, Message, ToolResult},
    model::{Selection, StoredModel},
    turn::MessageDetail,
};

impl Conversation {
    /// Creates the session's row and prompt if they do not exist.
    pub(crate) async fn ensure_row(
        &mut self,
        selection: Option<&Selection>,
    ) -> Result<(), ConversationError> {
        if self.prompt.text.is_none() {
            let prompt = self.build_prompt().await?;
            if self.is_stored() {
                let store = self.agent.store();
                store.set_system_prompt(&self.session.id, &prompt).await?;
            }
            self.prompt.text = Some(prompt);
        }
        let SessionRow::Pending(row) = &self.session.row else {
            return Ok(());
        };
        let mut row = row.clone();
        row.model = selection.map(|selection| selection.endpoint.model.clone());
        row.model_config = selection.map(|selection| model_config(&selection.stored()));
        row.system_prompt.clone_from(&self.prompt.text);
        row.cwd = Some(self.session.cwd.display().to_string());
        if let Some(repository) = find_repository(&self.session.cwd) {
            row.git_repo_root = Some(repository.root.display().to_string());
            row.git_branch = repository.branch;
        }
        self.agent.store().create_session(&row).await?;
        self.session.row = SessionRow::Stored;
        Ok(())
    }

    async fn build_prompt(&self) -> Result<String, ConversationError> {
        let (agent, setup) = (self.agent.clone(), self.setup.clone());
        let (session, cwd) = (self.session.id.clone(), self.session.cwd.clone());
        let written = tokio::task::spawn_blocking(move || {
            prompt::PromptContext {
                home: agent.home(),
                skills: &agent.skills(),
                setup: &setup,
                session: &session,
                cwd: &cwd,
            }
            .build(&Zoned::now())
        });
        match written.await {
            Ok(prompt) => Ok(prompt?),
            Err(error) => Err(ConversationError::Internal(error.to_string())),
        }
    }

    /// Stores the imported history, once.
    pub(crate) async fn store_history(&mut self) -> Result<(), ConversationError> {
        let history = std::mem::take(&mut self.history.imported);
        if history.is_empty() {
            return Ok(());
        }
        let detail = MessageDetail::default();
        let rows: Vec<NewMessage> = history
            .iter()
            .map(|message| message_rows::message_to_row(message, &detail))
            .collect();
        self.agent
            .store()
            .append_all(&self.session.id, &rows)
            .await?;
        // Imported history: reading it back gives calls without a result one.
        self.reload_messages().await
    }

    /// Stores the results of a client's calls before the session is resumed.
    pub async fn store_results(
        agent: &Agent,
        session: &SessionId,
        results: &[ToolResult],
    ) -> Result<(), ConversationError> {
        let rows: Vec<NewMessage> = results
            .iter()
            .map(|result| {
                message_rows::message_to_row(
                    &Message::Tool(result.clone()),
                    &MessageDetail::default(),
                )
            })
            .collect();
        agent.store().append_all(session, &rows).await?;
        Ok(())
    }

    /// Stores a user message and returns what the model gets: the message with notices of background processes.
    pub(crate) async fn store_user_message(
        &mut self,
        content: &Content,
    ) -> Result<Content, ConversationError> {
        #[cfg(unix)]
        let notices = self.tools.process_notices.take_text();
        #[cfg(not(unix))]
        let notices = String::new();
        let notes = [
            notices.as_str(),
            self.setup.user_note.as_deref().unwrap_or_default(),
        ];
        let notes: Vec<&str> = notes.into_iter().filter(|note| !note.is_empty()).collect();
        let (mut row, sent) = message_rows::user_row(content, &notes.join("\n\n"));
        row.platform_message_id
            .clone_from(&self.setup.platform_message_id);
        let stored = self.agent.store().append(&self.session.id, &row).await?;
        if let Some(rows) = &mut self.history.rows {
            rows.add([stored]);
        }
        Ok(sent)
    }
}

/// The model as stored in the row. A URL with a password is not stored.
pub(crate) fn model_config(stored: &StoredModel) -> Value {
    let is_open = |address: &&String| !address.contains('@');
    json!({"provider": stored.provider, "base_url": stored.base_url.as_ref().filter(is_open)})
}

/// A repository and its checked-out branch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Repository {
    pub(crate) root: PathBuf,
    /// None where no branch is checked out.
    pub(crate) branch: Option<String>,
}

pub(crate) fn find_repository(directory: &Path) -> Option<Repository> {
    directory.ancestors().find_map(|root| {
        let mark = root.join(".git");
        let git = match fs::read_to_string(&mark) {
            // In a linked working tree, `.git` is a file that names its state directory.
            Ok(text) => root.join(text.strip_prefix("gitdir:")?.trim()),
            Err(_) if mark.is_dir() => mark,
            Err(_) => return None,
        };
        let head = fs::read_to_string(git.join("HEAD")).unwrap_or_default();
        let branch = head.trim().strip_prefix("ref: refs/heads/");
        Some(Repository {
            root: root.to_path_buf(),
            branch: branch.map(str::to_owned),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_branch_is_found_from_below_and_from_a_further_tree() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().join("main");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir_all(root.join(".git/worktrees/other")).unwrap();
        fs::write(root.join(".git/HEAD"), "ref: refs/heads/feature/x\n").unwrap();
        let other = root.join(".git/worktrees/other");
        fs::write(other.join("HEAD"), "0123456789abcdef\n").unwrap();
        let tree = directory.path().join("other");
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join(".git"), format!("gitdir: {}\n", other.display())).unwrap();

        let repository = find_repository(&root.join("a/b")).unwrap();
        assert_eq!(repository.root, root);
        assert_eq!(repository.branch.as_deref(), Some("feature/x"));
        assert_eq!(find_repository(&tree).unwrap().branch, None);
    }
}
