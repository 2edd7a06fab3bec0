//! Titles: a model names a session after its first exchange, in the background.

use std::time::Duration;

use hermes_config::AuxiliaryTask;
use hermes_store::{SessionId, StoreError};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::Agent;
use crate::{
    conversation::storage::recorder::stored_usage,
    message::Message,
    model::{ModelRequest, Selection},
};

const INSTRUCTIONS: &str = "Write a title of three to seven words for a conversation that begins as follows. Answer with \
    the title alone, in the language of the user, without quotes and without a full stop.";
/// How much of each message the model gets, in characters.
const EXCERPT_CHARS: usize = 600;
const MAX_TITLE_CHARS: usize = 80;
/// How many numbered variants of a taken title are tried.
const MAX_ATTEMPTS: u32 = 5;
/// How long closing a conversation waits for its title: too short to notice.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(150);

/// The tasks that write titles. Their failures do not affect the conversation.
#[derive(Default)]
pub(super) struct TitleWriter {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl TitleWriter {
    /// Writes a title for a session that has none.
    pub(super) fn spawn(
        &self,
        agent: Agent,
        main: Selection,
        session: SessionId,
        exchange: (String, String),
    ) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            let written = write_title(&agent, &main, &session, &exchange);
            tokio::select! {
                () = stop.cancelled() => {}
                outcome = written => if let Err(error) = outcome {
                    tracing::info!(%session, error, "failed to generate a session title");
                }
            }
        });
    }

    /// Waits briefly for a title in progress.
    pub(super) async fn close(&self) {
        self.tasks.close();
        if tokio::time::timeout(CLOSE_TIMEOUT, self.tasks.wait())
            .await
            .is_err()
        {
            self.stop.cancel();
            self.tasks.wait().await;
        }
    }
}

impl Drop for TitleWriter {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn write_title(
    agent: &Agent,
    main: &Selection,
    session: &SessionId,
    (user, answer): &(String, String),
) -> Result<(), String> {
    let text = |error: StoreError| error.to_string();
    let task = AuxiliaryTask::TitleGeneration;
    let model = agent.auxiliary(Some(main), task).await;
    let model = model.map_err(|error| error.to_string())?;
    let exchange = format!("User: {}\n\nAssistant: {}", excerpt(user), excerpt(answer));
    let messages = [Message::system(INSTRUCTIONS), Message::user(exchange)];
    let request = ModelRequest {
        messages: &messages,
        ..ModelRequest::default()
    };
    let reply = model.complete(&request).await;
    let reply = reply.map_err(|error| error.to_string())?;
    let store = agent.store();
    let usage = stored_usage(reply.usage.unwrap_or_default());
    store
        .record_usage(session, model.name(), Some(task.key()), &usage)
        .await
        .map_err(text)?;
    let title = clean_title(&reply.text).ok_or("the model's reply was empty")?;
    for attempt in 1..=MAX_ATTEMPTS {
        let title = match attempt {
            1 => title.clone(),
            number => format!("{title} ({number})"),
        };
        // The user may have set a title meanwhile: that one stays.
        match store.set_first_title(session, &title).await {
            Err(StoreError::TitleTaken { .. }) => {}
            outcome => return outcome.map(|_| ()).map_err(text),
        }
    }
    Err("other sessions have the same title".into())
}

fn excerpt(text: &str) -> &str {
    let end = text.char_indices().nth(EXCERPT_CHARS);
    end.map_or(text, |(end, _)| &text[..end])
}

fn clean_title(text: &str) -> Option<String> {
    let mut lines = text.lines().map(str::trim);
    let line = lines.rfind(|line| !line.is_empty())?;
    let line = line.strip_prefix("Title:").unwrap_or(line);
    let line = line.trim_matches(|c: char| c.is_whitespace() || "\"'`*#.“”«»„".contains(c));
    let title: String = line.chars().take(MAX_TITLE_CHARS).collect();
    (!title.is_empty()).then_some(title)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_lose_their_wrapping() {
        for (text, title) in [
            ("Fixing the build", Some("Fixing the build")),
            ("\"Fixing the build.\"\n", Some("Fixing the build")),
            ("Title: **Fixing the build**", Some("Fixing the build")),
            ("<think>\nhm\n</think>\n\nFixing it", Some("Fixing it")),
            (" \n", None),
        ] {
            assert_eq!(clean_title(text).as_deref(), title, "{text}");
        }
        assert_eq!(
            clean_title(&"x".repeat(200)).map(|title| title.len()),
            Some(80)
        );
    }
}
