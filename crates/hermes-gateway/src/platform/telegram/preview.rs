//! Growing answers in private chats: drafts, which Telegram shows for 30 seconds unless they are sent again.

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::{sync::watch, task::JoinSet, time::sleep};

use super::{
    super::{ChatAddress, LivePreview, OutboundMessage, PostError, Posted, TaskState},
    TelegramClient,
    api::{BotApi, BotApiError},
    identity::ServerFeature,
    open_drafts::OpenDraft,
    post::address_fields,
    text::{has_cjk, to_rich_markdown, utf16_tail},
};
use crate::send::{Dialect, render_markdown};

/// What comes faster is joined.
const LEAST_INTERVAL: Duration = Duration::from_millis(300);
/// The part of a long answer that a draft shows, in UTF-16 units: markup needs room, too.
const SHOWN_UNITS: usize = 3000;
/// The steps that are shown below the answer.
const SHOWN_TASKS: usize = 3;

/// What the draft should show, and why it cannot be shown any more.
#[derive(Debug, Clone, Default)]
struct DraftContent {
    text: String,
    tasks: Vec<DraftTask>,
}

#[derive(Debug, Clone)]
struct DraftTask {
    id: String,
    title: String,
    state: TaskState,
}

pub(super) struct TelegramPreview {
    content: watch::Sender<DraftContent>,
    failure: watch::Receiver<Option<PostError>>,
    /// One task, which ends with the preview.
    sender: JoinSet<()>,
    /// Until the answer is complete.
    open: Option<OpenDraft>,
}

/// The draft of one answer.
struct DraftSender {
    api: Arc<BotApi>,
    rich_drafts: Arc<ServerFeature>,
    fields: Map<String, Value>,
    repeat: Duration,
}

impl TelegramClient {
    /// Opens a draft, if the chat and the server have them.
    pub(super) async fn open_draft(
        &self,
        chat: &ChatAddress,
    ) -> Result<Option<Box<dyn LivePreview>>, PostError> {
        if !chat.is_direct() || self.drafts.is_missing() {
            return Ok(None);
        }
        let mut fields = address_fields(chat);
        let open = self.open_drafts.open();
        fields.insert("draft_id".into(), json!(open.id));
        fields.insert("can_stop".into(), json!(true));
        let draft = DraftSender {
            api: Arc::clone(&self.api),
            rich_drafts: Arc::clone(&self.rich_drafts),
            fields,
            repeat: self.timing.draft_repeat,
        };
        // An empty draft says that the bot is thinking.
        match draft
            .send_words("sendMessageDraft", [("text", json!(""))])
            .await
        {
            Ok(_) => self.drafts.record_supported(),
            Err(error) if error.is_unknown_method() => {
                self.drafts.record_missing("sendMessageDraft");
                return Ok(None);
            }
            // Servers before 10.1 want a text.
            Err(error) if error.says("text is empty") || error.says("must be non-empty") => {}
            Err(error) => return Err(error.into_post_error()),
        }
        let (content, watched) = watch::channel(DraftContent::default());
        let (failed, failure) = watch::channel(None);
        let mut sender = JoinSet::new();
        sender.spawn(async move {
            if let Err(error) = draft.follow(watched).await {
                failed.send_replace(Some(error));
            }
        });
        Ok(Some(Box::new(TelegramPreview {
            content,
            failure,
            sender,
            open: Some(open),
        })))
    }
}

impl DraftSender {
    /// Shows the newest content until the preview is gone.
    async fn follow(&self, mut content: watch::Receiver<DraftContent>) -> Result<(), PostError> {
        loop {
            tokio::select! {
                changed = content.changed() => if changed.is_err() {
                    return Ok(());
                },
                () = sleep(self.repeat) => {}
            }
            let shown = content.borrow_and_update().render();
            if let Err(error) = self.show(&shown).await {
                match error.into_post_error() {
                    PostError::RateLimited { wait } => sleep(wait).await,
                    error if error.is_temporary() => {
                        tracing::debug!(%error, "Telegram draft not sent");
                    }
                    error => return Err(error),
                }
            }
            sleep(LEAST_INTERVAL).await;
        }
    }

    async fn show(&self, text: &str) -> Result<(), BotApiError> {
        let text = utf16_tail(text, SHOWN_UNITS);
        if text.trim().is_empty() {
            return self
                .send_words("sendMessageDraft", [("text", json!(""))])
                .await
                .map(drop);
        }
        if !self.rich_drafts.is_missing() && !has_cjk(text) {
            let content = json!({"markdown": to_rich_markdown(text)});
            let sent = self
                .send_words("sendRichMessageDraft", [("rich_message", content)])
                .await;
            match sent {
                Ok(_) => return Ok(()),
                Err(error) if error.is_unknown_method() => {
                    self.rich_drafts.record_missing("sendRichMessageDraft");
                }
                // Half of an answer may not be readable as rich text.
                Err(error) if error.status() == Some(400) => {}
                Err(error) => return Err(error),
            }
        }
        let rendered = json!(render_markdown(text, Dialect::Telegram));
        let words = [("text", rendered), ("parse_mode", json!("MarkdownV2"))];
        match self.send_words("sendMessageDraft", words).await {
            Err(error) if error.says("can't parse") => self
                .send_words("sendMessageDraft", [("text", json!(text))])
                .await
                .map(drop),
            sent => sent.map(drop),
        }
    }

    async fn send_words<const COUNT: usize>(
        &self,
        method: &str,
        words: [(&str, Value); COUNT],
    ) -> Result<Value, BotApiError> {
        let mut fields = self.fields.clone();
        fields.extend(words.map(|(name, value)| (name.to_owned(), value)));
        self.api.call(method, &fields.into()).await
    }
}

impl DraftContent {
    /// The answer, and below it the last steps.
    fn render(&self) -> String {
        let mut text = self.text.clone();
        let skipped = self.tasks.len().saturating_sub(SHOWN_TASKS);
        for task in self.tasks.iter().skip(skipped) {
            if !text.is_empty() {
                text.push('\n');
            }
            let sign = match task.state {
                TaskState::InProgress => "⏳",
                TaskState::Complete => "✅",
                TaskState::Failed => "⚠️",
            };
            text.push_str(sign);
            text.push(' ');
            text.push_str(&task.title);
        }
        text
    }
}

impl TelegramPreview {
    fn change(&self, change: impl FnOnce(&mut DraftContent)) -> Result<(), PostError> {
        if let Some(error) = self.failure.borrow().clone() {
            return Err(error);
        }
        self.content.send_modify(change);
        Ok(())
    }

    /// Waits until nothing is being sent any more.
    async fn end(&mut self) {
        self.open = None;
        self.sender.shutdown().await;
    }
}

impl LivePreview for TelegramPreview {
    fn update<'a>(&'a mut self, text: &'a str) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(async move { self.change(|content| text.clone_into(&mut content.text)) })
    }

    fn update_task<'a>(
        &'a mut self,
        id: &'a str,
        title: &'a str,
        state: TaskState,
    ) -> BoxFuture<'a, Result<(), PostError>> {
        Box::pin(async move {
            self.change(|content| {
                let known = content.tasks.iter_mut().find(|task| task.id == id);
                if let Some(task) = known {
                    task.state = state;
                    title.clone_into(&mut task.title);
                } else {
                    content.tasks.push(DraftTask {
                        id: id.to_owned(),
                        title: title.to_owned(),
                        state,
                    });
                }
            })
        })
    }

    fn finish<'a>(
        &'a mut self,
        _message: &'a OutboundMessage,
    ) -> BoxFuture<'a, Result<Option<Posted>, PostError>> {
        Box::pin(async move {
            self.end().await;
            // Telegram removes the draft when the message arrives.
            Ok(None)
        })
    }

    fn discard(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.end())
    }
}
