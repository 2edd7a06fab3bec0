//! Waits for the first message to a bot that was just set up, and for its answer.

use std::time::Duration;

use hermes_gateway::{
    access::PairingStore,
    conversations::{ConversationEntry, ConversationIndex},
    instance::PlatformStatus,
    platform::Account,
};
use hermes_store::{
    Access, MessageQuery, Role, SessionId, Store,
    pairing::PendingPairing,
    runtime::{OutboundChat, RuntimeStore},
};
use serde_json::{Value, json};

use super::{
    super::accounts::{AccountLine, list_accounts},
    MAX_ATTEMPTS, NONINTERACTIVE_HINT,
};
use crate::{
    commands::state::unix_now, context::Context, failure::Failure, output::printable,
    question::Questions,
};

const WAIT_TIMEOUT: Duration = Duration::from_mins(5);
/// How long the bot may take to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const INTERVAL: Duration = Duration::from_millis(500);
/// So often nothing may be left to do, and no answer be there, before there is none.
const MAX_IDLE_CHECKS: u32 = 3;

/// What comes of a message to the bot.
enum FirstSign {
    /// Somebody who may not use the bot got a code.
    Code(PendingPairing),
    Answered(ConversationEntry),
    Unanswered(ConversationEntry),
}

/// The first message to an account.
pub(super) struct FirstMessage<'a> {
    context: &'a Context,
    account: &'a Account,
    /// When somebody wrote last, before.
    before: Option<String>,
    /// Those whose code was told.
    told: Vec<String>,
}

impl<'a> FirstMessage<'a> {
    /// One that is written from now on.
    pub(super) fn from_now(context: &'a Context, account: &'a Account) -> Result<Self, Failure> {
        let before = context.block_on(async {
            let index = ConversationIndex::open(&context.home);
            let newest = find_newest(&index, &account.label()).await?;
            index.close().await;
            Ok(newest.map(|entry| entry.updated_at))
        })?;
        Ok(Self {
            context,
            account,
            before,
            told: Vec::new(),
        })
    }

    /// Waits until somebody writes and has an answer, and says who it is.
    pub(super) fn wait(mut self, questions: Questions) -> Result<Value, Failure> {
        let output = self.context.output;
        self.wait_for_connection()?;
        output.note("Waiting for a message to the bot (Ctrl-C ends the waiting) …");
        loop {
            match self.next_sign()? {
                FirstSign::Code(waiting) => self.offer_approval(questions, &waiting)?,
                FirstSign::Answered(entry) => {
                    let who = name_writer(&entry);
                    output.line(format!(
                        "{who} wrote to the bot and got an answer: it works."
                    ));
                    return Ok(json!({"chat_id": entry.chat_id, "user_name": entry.user_name}));
                }
                FirstSign::Unanswered(entry) => {
                    let who = name_writer(&entry);
                    let message = format!("{who} wrote to the bot and got no answer of the model");
                    return Err(Failure::failed(message).hint(
                        "the bot says why in the chat; `hermes logs hermes` shows what happened",
                    ));
                }
            }
        }
    }

    /// What is written before the bot is connected may never reach it.
    fn wait_for_connection(&self) -> Result<(), Failure> {
        let (context, label) = (self.context, self.account.label());
        context.output.progress("Connecting the bot …");
        let connected = context.block_on(async {
            let connected = async {
                while !is_connected(context, &label)? {
                    tokio::time::sleep(INTERVAL).await;
                }
                Ok(())
            };
            let in_time = tokio::time::timeout(CONNECT_TIMEOUT, connected).await;
            in_time.unwrap_or_else(|_| Err(not_connected(context, &label)))
        });
        context.output.end_progress();
        connected
    }

    fn next_sign(&self) -> Result<FirstSign, Failure> {
        self.context.block_on(async {
            tokio::time::timeout(WAIT_TIMEOUT, self.watch())
                .await
                .unwrap_or_else(|_| Err(nothing_heard(self.context, &self.account.label())))
        })
    }

    async fn watch(&self) -> Result<FirstSign, Failure> {
        let home = &self.context.home;
        let index = ConversationIndex::open(home);
        let runtime = RuntimeStore::open(home).await?;
        let sign = self.find_sign(&index, &runtime).await;
        index.close().await;
        runtime.close().await;
        sign
    }

    async fn find_sign(
        &self,
        index: &ConversationIndex,
        runtime: &RuntimeStore,
    ) -> Result<FirstSign, Failure> {
        let label = self.account.label();
        let pairing = PairingStore::new(&self.context.home);
        let mut idle_checks = 0;
        loop {
            let mut pending = pairing.list_pending().into_iter();
            let waiting = pending
                .find(|waiting| waiting.account == label && !self.told.contains(&waiting.user_id));
            if let Some(waiting) = waiting {
                return Ok(FirstSign::Code(waiting));
            }
            let newest = find_newest(index, &label).await?;
            let heard = newest.filter(|entry| Some(&entry.updated_at) != self.before.as_ref());
            if let Some(entry) = heard {
                if self.has_answer(&entry).await? {
                    return Ok(FirstSign::Answered(entry));
                }
                let is_idle = self.is_idle(runtime, &entry).await?;
                idle_checks = if is_idle { idle_checks + 1 } else { 0 };
                if idle_checks == MAX_IDLE_CHECKS {
                    return Ok(FirstSign::Unanswered(entry));
                }
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Whether the last message is an answer that was sent: then it has the platform's id.
    async fn has_answer(&self, entry: &ConversationEntry) -> Result<bool, Failure> {
        let Ok(session) = SessionId::parse(&entry.session_id) else {
            return Ok(false);
        };
        let store = Store::open(&self.context.home, Access::ReadOnly).await?;
        let query = MessageQuery {
            limit: 1,
            ..MessageQuery::default()
        };
        let last = store.read_messages(&session, &query).await?.pop();
        store.close().await;
        Ok(last.is_some_and(|last| {
            last.body.role == Role::Assistant && last.body.platform_message_id.is_some()
        }))
    }

    /// Whether there is neither a message to be answered nor an answer to be sent.
    async fn is_idle(
        &self,
        runtime: &RuntimeStore,
        entry: &ConversationEntry,
    ) -> Result<bool, Failure> {
        let (platform, account) = (self.account.platform.name(), &self.account.name);
        let updates = runtime.pending_updates().await?;
        let mut updates = updates.iter();
        if updates.any(|update| update.platform == platform && update.account == *account) {
            return Ok(false);
        }
        let chat = OutboundChat {
            platform: platform.to_owned(),
            account: account.clone(),
            chat: entry.chat_id.clone(),
        };
        Ok(runtime.next_outbound(&chat).await?.is_none())
    }

    /// Says that somebody has a code, and lets them in with it.
    fn offer_approval(
        &mut self,
        questions: Questions,
        waiting: &PendingPairing,
    ) -> Result<(), Failure> {
        let output = self.context.output;
        let label = self.account.label();
        self.told.push(waiting.user_id.clone());
        let who = match waiting.user_name.as_str() {
            "" => format!("`{}`", waiting.user_id),
            name => format!("{name} (`{}`)", waiting.user_id),
        };
        output.line(format!("{who} wrote to the bot and got a code."));
        if !questions.can_ask() {
            output.line(format!(
                "`hermes pairing approve {label} CODE` lets them in; then they have to write again."
            ));
            return Ok(());
        }
        for _ in 0..MAX_ATTEMPTS {
            let question = "The code, to let them in (empty: not now)";
            let code = questions.text(question, Some(""), NONINTERACTIVE_HINT)?;
            if code.is_empty() {
                return Ok(());
            }
            match PairingStore::new(&self.context.home).approve(&label, &code) {
                Ok(_) => {
                    output.line(format!(
                        "{who} may use the bot now, and has to write again."
                    ));
                    return Ok(());
                }
                Err(error) => output.failure(&Failure::failed(error.to_string())),
            }
        }
        Ok(())
    }
}

/// The conversation of an account that was used last.
async fn find_newest(
    index: &ConversationIndex,
    label: &str,
) -> Result<Option<ConversationEntry>, Failure> {
    let entries = index.entries().await?;
    let newest = entries.iter().find(|entry| entry.platform == label);
    Ok(newest.map(|entry| (**entry).clone()))
}

fn name_writer(entry: &ConversationEntry) -> &str {
    let names = [&entry.user_name, &entry.chat_name, &entry.chat_id];
    let name = names.into_iter().find(|name| !name.is_empty());
    name.map_or("somebody", String::as_str)
}

/// Whether the running gateway has the bot connected. Fails if it never will.
fn is_connected(context: &Context, label: &str) -> Result<bool, Failure> {
    let account = find_account(context, label);
    let status = account.and_then(|account| PlatformStatus::from_word(&account.state));
    match status {
        Some(PlatformStatus::Fatal) => Err(not_connected(context, label)),
        status => Ok(status == Some(PlatformStatus::Connected)),
    }
}

fn find_account(context: &Context, label: &str) -> Option<AccountLine> {
    let settings = context.written_settings().ok()?;
    let accounts = list_accounts(&context.home, &settings.gateway);
    accounts.into_iter().find(|account| account.label == label)
}

fn not_connected(context: &Context, label: &str) -> Failure {
    with_state(
        context,
        label,
        Failure::failed("the bot is not connected to its platform"),
    )
}

fn nothing_heard(context: &Context, label: &str) -> Failure {
    with_state(
        context,
        label,
        Failure::failed("nothing was heard in 5 minutes"),
    )
}

/// Adds how the platform is, and what helps.
fn with_state(context: &Context, label: &str, failure: Failure) -> Failure {
    match find_account(context, label) {
        Some(account) => {
            let failure = failure.hint(account.summary(unix_now()));
            match &account.fix {
                Some(fix) => failure.hint(printable(fix)),
                None => failure,
            }
        }
        None => failure.hint("`hermes gateway status` shows how the platform is"),
    }
}
