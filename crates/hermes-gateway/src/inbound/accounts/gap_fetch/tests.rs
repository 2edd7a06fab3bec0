use std::{
    collections::{HashMap, HashSet},
    path::Path,
};

use futures::future::BoxFuture;
use hermes_config::Platform;
use hermes_store::mirror::Channel;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::platform::{
    Attachment, ChatAddress, ChatKind, ClientLimits, CommandSpec, FatalError, InboundEvent,
    InboundKind, IntakeError, LivePreview, OutboundMessage, Posted,
};

/// The platform's time, in seconds since 1970.
const NOW: f64 = 1_800_000_000.0;
const DAY: f64 = 24.0 * 3600.0;
/// By the clock of the tests, which nobody waits for.
const LIMIT: Duration = Duration::from_hours(1);

type Done<'a, T> = BoxFuture<'a, Result<T, PostError>>;

fn done<'a, T: Send + 'a>(value: T) -> Done<'a, T> {
    Box::pin(std::future::ready(Ok(value)))
}

/// A platform of which only the past can be read.
struct HistoryClient {
    account: Account,
    /// Chats that cannot be read at the moment.
    broken: Mutex<HashSet<String>>,
    /// What was said in chats, and when.
    said: Mutex<HashMap<String, Vec<f64>>>,
    /// Which chats were asked, and from where on.
    asked: Mutex<Vec<(String, String)>>,
    /// What is read takes until this is cancelled.
    held: Mutex<Option<CancellationToken>>,
}

impl PlatformClient for HistoryClient {
    fn account(&self) -> &Account {
        &self.account
    }

    fn limits(&self) -> ClientLimits {
        ClientLimits {
            message: 4096,
            caption: 1024,
            measure: |text| text.chars().count(),
            edit_interval: (Duration::from_secs(1), Duration::from_secs(3)),
            typing_interval: Duration::from_secs(4),
            album: 10,
        }
    }

    fn platform_time(&self) -> f64 {
        NOW
    }

    fn receive<'a>(
        &'a self,
        _: &'a dyn UpdateIntake,
        _: &'a PlatformHealth,
        _: CancellationToken,
    ) -> BoxFuture<'a, Result<(), FatalError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn decode(&self, payload: &Value) -> Option<InboundEvent> {
        Some(InboundEvent {
            chat: ChatAddress::new(payload["chat"].as_str()?, ChatKind::Dm),
            sender: None,
            sent_at: payload["sent_at"].as_f64(),
            kind: InboundKind::StopPressed,
        })
    }

    fn post<'a>(&'a self, _: &'a ChatAddress, _: &'a OutboundMessage) -> Done<'a, Posted> {
        done(Posted {
            message_id: "1".into(),
            warning: None,
        })
    }

    fn edit<'a>(&'a self, _: &'a ChatAddress, _: &'a str, _: &'a OutboundMessage) -> Done<'a, ()> {
        done(())
    }

    fn delete<'a>(&'a self, _: &'a ChatAddress, _: &'a str) -> Done<'a, ()> {
        done(())
    }

    fn show_typing<'a>(&'a self, _: &'a ChatAddress) -> Done<'a, ()> {
        done(())
    }

    fn open_preview<'a>(
        &'a self,
        _: &'a ChatAddress,
        _: Option<&'a InboundEvent>,
    ) -> Done<'a, Option<Box<dyn LivePreview>>> {
        done(None)
    }

    fn acknowledge<'a>(&'a self, _: &'a InboundEvent, _: Option<&'a str>) -> Done<'a, ()> {
        done(())
    }

    fn react<'a>(&'a self, _: &'a ChatAddress, _: &'a str, _: &'a str) -> Done<'a, ()> {
        done(())
    }

    fn download<'a>(&'a self, _: &'a Attachment, _: &'a Path, _: u64) -> Done<'a, ()> {
        done(())
    }

    fn register_commands<'a>(&'a self, _: &'a [CommandSpec]) -> Done<'a, ()> {
        done(())
    }

    fn list_channels(&self) -> Done<'_, Vec<Channel>> {
        done(Vec::new())
    }

    fn open_thread<'a>(
        &'a self,
        _: &'a ChatAddress,
        _: &'a str,
        _: &'a str,
    ) -> Done<'a, Option<ChatAddress>> {
        done(None)
    }

    fn fetch_missed<'a>(
        &'a self,
        chat: &'a ChatAddress,
        after_message: &'a str,
    ) -> Done<'a, Vec<RawUpdate>> {
        Box::pin(async move {
            let asked = (chat.id.clone(), after_message.to_owned());
            self.asked.lock().push(asked);
            let held = self.held.lock().clone();
            if let Some(held) = held {
                held.cancelled().await;
            }
            if self.broken.lock().contains(&chat.id) {
                let reason = "a server failed".into();
                return Err(PostError::Temporary { reason });
            }
            let said = self.said.lock().get(&chat.id).cloned();
            let updates = said.unwrap_or_default().into_iter().map(|sent_at| {
                let payload = json!({"chat": chat.id, "sent_at": sent_at});
                RawUpdate {
                    event_id: payload.to_string(),
                    payload,
                }
            });
            Ok(updates.collect())
        })
    }
}

/// Keeps what is stored.
#[derive(Default)]
struct RecordedUpdates(Mutex<Vec<RawUpdate>>);

impl UpdateIntake for RecordedUpdates {
    fn store(
        &self,
        updates: Vec<RawUpdate>,
        _: Option<Value>,
    ) -> BoxFuture<'_, Result<(), IntakeError>> {
        self.0.lock().extend(updates);
        Box::pin(std::future::ready(Ok(())))
    }

    fn cursor(&self) -> BoxFuture<'_, Result<Option<Value>, IntakeError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

fn mark(chat: &str, after: &str) -> ChatMark {
    ChatMark {
        chat: ChatAddress::new(chat, ChatKind::Dm),
        after: after.to_owned(),
    }
}

/// An account whose connections the test makes and loses.
struct FetchingAccount {
    client: HistoryClient,
    intake: RecordedUpdates,
    health: PlatformHealth,
    recent: Mutex<Vec<ChatMark>>,
}

impl FetchingAccount {
    fn new() -> Self {
        Self {
            client: HistoryClient {
                account: Account::first(Platform::Slack),
                broken: Mutex::default(),
                said: Mutex::default(),
                asked: Mutex::default(),
                held: Mutex::default(),
            },
            intake: RecordedUpdates::default(),
            health: PlatformHealth::new(Duration::from_mins(1)),
            recent: Mutex::default(),
        }
    }

    /// Fetches while a test does something.
    async fn fetch_during(&self, test: impl Future<Output = ()>) {
        let recent_marks = || self.recent.lock().clone();
        let fetch = GapFetch {
            account: &self.client.account,
            client: &self.client,
            intake: &self.intake,
            health: &self.health,
            recent_marks: &recent_marks,
            marks: Mutex::default(),
        };
        tokio::select! {
            biased;
            never = fetch.run() => match never {},
            () = test => {}
        }
    }

    /// How far the chats are from now on.
    fn set_recent<const N: usize>(&self, recent: [ChatMark; N]) {
        *self.recent.lock() = recent.into();
    }

    /// Lets the fetch see what the test has done.
    async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// The chats that are asked next, in the order of their names.
    async fn next_asked(&self, count: usize) -> Vec<(String, String)> {
        let asking = async {
            while self.client.asked.lock().len() < count {
                self.pass(Duration::from_millis(1)).await;
            }
        };
        let waited = timeout(LIMIT, asking).await;
        let mut asked = std::mem::take(&mut *self.client.asked.lock());
        assert!(waited.is_ok(), "{asked:?}");
        asked.sort();
        asked
    }
}

fn asked<const N: usize>(chats: [(&str, &str); N]) -> Vec<(String, String)> {
    let chats = chats.into_iter();
    chats
        .map(|(chat, after)| (chat.to_owned(), after.to_owned()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn after_a_gap_every_chat_is_asked_also_while_another_one_still_fails() {
    let account = FetchingAccount::new();
    account.set_recent([mark("x", "10"), mark("y", "20")]);
    account.client.broken.lock().insert("x".into());
    let test = async {
        account.health.record_ok();
        let first = account.next_asked(2).await;
        assert_eq!(first, asked([("x", "10"), ("y", "20")]));
        account.set_recent([mark("x", "10"), mark("y", "25")]);
        account.health.record_gap();
        let second = account.next_asked(2).await;
        assert_eq!(second, asked([("x", "10"), ("y", "25")]));
        // Only what failed is tried again.
        account.client.broken.lock().clear();
        assert_eq!(account.next_asked(1).await, asked([("x", "10")]));
        account.pass(LIMIT).await;
        assert!(account.client.asked.lock().is_empty());
    };
    account.fetch_during(test).await;
}

#[tokio::test(start_paused = true)]
async fn during_an_outage_nothing_is_fetched_and_what_it_may_hide_is_asked_after_it() {
    let account = FetchingAccount::new();
    account.set_recent([mark("x", "10")]);
    account.client.broken.lock().insert("x".into());
    let test = async {
        account.health.record_ok();
        assert_eq!(account.next_asked(1).await, asked([("x", "10")]));
        account.set_recent([mark("x", "10"), mark("y", "20")]);
        account.health.record_lost("disconnected", "");
        // Longer than it takes until what failed is tried again.
        account.pass(LIMIT).await;
        assert!(account.client.asked.lock().is_empty());
        // What came over the next connection was answered already.
        account.set_recent([mark("x", "10"), mark("y", "30")]);
        account.health.record_ok();
        let after = account.next_asked(2).await;
        assert_eq!(after, asked([("x", "10"), ("y", "20")]));
    };
    account.fetch_during(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_gone_when_its_turn_comes_uses_up_no_marks() {
    let account = FetchingAccount::new();
    account.set_recent([mark("x", "10")]);
    let held = CancellationToken::new();
    *account.client.held.lock() = Some(held.clone());
    let moment = Duration::from_millis(1);
    let test = async {
        account.health.record_ok();
        assert_eq!(account.next_asked(1).await, asked([("x", "10")]));
        account.set_recent([mark("x", "20")]);
        account.health.record_lost("disconnected", "");
        account.pass(moment).await;
        account.health.record_ok();
        account.pass(moment).await;
        account.health.record_lost("disconnected", "");
        held.cancel();
        account.pass(LIMIT).await;
        assert!(account.client.asked.lock().is_empty());
        account.set_recent([mark("x", "30")]);
        account.health.record_ok();
        assert_eq!(account.next_asked(1).await, asked([("x", "20")]));
    };
    account.fetch_during(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_gap_behind_an_announced_end_is_asked_from_before_it_was_announced() {
    let account = FetchingAccount::new();
    account.set_recent([mark("x", "10")]);
    let moment = Duration::from_millis(1);
    let test = async {
        account.health.record_ok();
        assert_eq!(account.next_asked(1).await, asked([("x", "10")]));
        let end = account.health.announce_end();
        account.pass(moment).await;
        // Over the next connection, and before the end of the former one is read.
        account.set_recent([mark("x", "30")]);
        account.pass(moment).await;
        account.health.record_gap();
        drop(end);
        assert_eq!(account.next_asked(1).await, asked([("x", "10")]));
        // Without a gap nothing is asked.
        let end = account.health.announce_end();
        account.pass(moment).await;
        drop(end);
        account.pass(LIMIT).await;
        assert!(account.client.asked.lock().is_empty());
    };
    account.fetch_during(test).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_so_old_that_the_inbox_may_have_forgotten_it_is_not_taken_again() {
    let account = FetchingAccount::new();
    account.set_recent([mark("x", "10")]);
    let recent = NOW - 5.0 * DAY;
    let said = vec![NOW - 6.5 * DAY, recent];
    account.client.said.lock().insert("x".into(), said);
    let test = async {
        account.health.record_ok();
        account.next_asked(1).await;
        account.pass(LIMIT).await;
    };
    account.fetch_during(test).await;
    let kept = account.intake.0.lock();
    let times = kept.iter().map(|update| update.payload["sent_at"].clone());
    assert_eq!(times.collect::<Vec<_>>(), [json!(recent)]);
}
