//! What the gateway says: the durable queue and growing answers, with a client that records and fails on demand.

mod delivery;
mod faults;
mod recording_client;
mod streaming;

use std::{sync::Arc, time::Duration};

use futures::future::BoxFuture;
use hermes_config::{Home, Platform, Settings, Variables};
use hermes_gateway::{
    outbound::{ClientRegistry, DeliveryClock, Outbox, QueuedReply},
    platform::{Account, ChatAddress, ChatKind},
};
use hermes_store::runtime::{OutboundState, RuntimeStore};
use hermes_testkit::{TemporaryHome, eventually};
use tokio::{sync::watch, task::JoinSet};
use tokio_util::sync::CancellationToken;

use self::recording_client::RecordingClient;

const LIMIT: Duration = Duration::from_secs(30);

/// A clock that goes on when it is told to.
struct ManualClock {
    time: watch::Sender<Duration>,
    /// Seconds since 1970 at its beginning. It is set between two processes.
    start: std::sync::Mutex<f64>,
    /// The longest time that anybody has waited for.
    longest_wait: std::sync::Mutex<Duration>,
}

impl ManualClock {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            time: watch::Sender::new(Duration::from_secs(1)),
            start: std::sync::Mutex::new(1_800_000_000.0),
            longest_wait: std::sync::Mutex::default(),
        })
    }

    /// Sets it by so many seconds.
    fn set(&self, seconds: f64) {
        *self.start.lock().unwrap() += seconds;
    }

    fn advance(&self, time: Duration) {
        self.time.send_modify(|now| *now += time);
    }

    fn longest_wait(&self) -> Duration {
        *self.longest_wait.lock().unwrap()
    }
}

impl DeliveryClock for ManualClock {
    fn wall(&self) -> f64 {
        *self.start.lock().unwrap() + self.monotonic().as_secs_f64()
    }

    fn monotonic(&self) -> Duration {
        *self.time.borrow()
    }

    fn sleep(&self, time: Duration) -> BoxFuture<'static, ()> {
        {
            let mut longest = self.longest_wait.lock().unwrap();
            *longest = time.max(*longest);
        }
        let end = self.monotonic() + time;
        let mut times = self.time.subscribe();
        Box::pin(async move {
            if times.wait_for(|now| *now >= end).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

/// An outbox with its worker, for one Telegram account.
struct OutboxFixture {
    home: TemporaryHome,
    clock: Arc<ManualClock>,
    client: Arc<RecordingClient>,
    outbox: Outbox,
    runtime: RuntimeStore,
    stop: CancellationToken,
    worker: JoinSet<()>,
}

impl OutboxFixture {
    async fn new() -> Self {
        let clock = ManualClock::new();
        let client = RecordingClient::new(Arc::clone(&clock));
        Self::start(TemporaryHome::new(), clock, client).await
    }

    async fn start(
        home: TemporaryHome,
        clock: Arc<ManualClock>,
        client: Arc<RecordingClient>,
    ) -> Self {
        let hermes = Home::at(home.path());
        let runtime = RuntimeStore::open(&hermes).await.unwrap();
        let settings = Settings::parse("{}", Variables::default()).unwrap();
        let clients = ClientRegistry::default();
        clients.insert(client.clone());
        let outbox =
            Outbox::with_clock(&hermes, &settings, runtime.clone(), clients, clock.clone());
        let stop = CancellationToken::new();
        let mut worker = JoinSet::new();
        worker.spawn({
            let (outbox, stop) = (outbox.clone(), stop.clone());
            async move { outbox.run(stop).await }
        });
        Self {
            home,
            clock,
            client,
            outbox,
            runtime,
            stop,
            worker,
        }
    }

    /// The process dies, and another one starts with the same files.
    async fn crash(self) -> Self {
        self.crash_with_clock(0.0).await
    }

    /// The same, and the clock is set by so many seconds meanwhile.
    async fn crash_with_clock(mut self, seconds: f64) -> Self {
        self.worker.shutdown().await;
        self.runtime.close().await;
        // What the old process still had in memory is gone with it.
        let client = self.client.clone();
        client.release_all();
        self.clock.set(seconds);
        Self::start(self.home, self.clock, client).await
    }

    async fn queue(&self, chat: &str, text: &str, key: &str) {
        let reply = QueuedReply::new(account(), group(chat), text, key);
        self.outbox.queue_reply(reply).await.unwrap();
    }

    /// Waits for something that happens without the clock.
    async fn until(&self, what: &str, condition: impl FnMut() -> bool) {
        assert!(
            eventually(LIMIT, condition).await,
            "{what}: {:?}",
            self.client.calls()
        );
    }

    /// Lets time pass in small steps until something has happened.
    async fn until_later(&self, what: &str, step: Duration, mut condition: impl FnMut() -> bool) {
        let clock = Arc::clone(&self.clock);
        let happened = eventually(LIMIT, || {
            if condition() {
                return true;
            }
            clock.advance(step);
            false
        });
        assert!(happened.await, "{what}: {:?}", self.client.calls());
    }

    /// Waits until a reply is delivered, while time passes.
    async fn delivered(&self, key: &str, step: Duration) {
        let start = std::time::Instant::now();
        loop {
            let state = self.outbox.reply_state(key).await.unwrap();
            if state.as_ref().is_some_and(OutboundState::is_delivered) {
                return;
            }
            assert!(
                start.elapsed() < LIMIT,
                "{key}: {state:?} {:?}",
                self.client.calls()
            );
            self.advance_and_yield(step).await;
        }
    }

    /// Lets time pass, and the tasks do what they would do then.
    async fn advance_and_yield(&self, time: Duration) {
        self.clock.advance(time);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    async fn end(mut self) {
        self.stop.cancel();
        self.worker.join_next().await.unwrap().unwrap();
    }
}

fn account() -> Account {
    Account::first(Platform::Telegram)
}

fn group(id: &str) -> ChatAddress {
    ChatAddress::new(id, ChatKind::Group)
}

/// A text of three messages of 100 characters.
fn long_text() -> String {
    let words: Vec<String> = (1..=24).map(|number| format!("word{number:05}")).collect();
    words.join(" ")
}

const SECOND: Duration = Duration::from_secs(1);
