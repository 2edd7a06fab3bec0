//! Other processes that write, and bridges that are killed.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use hermes_config::Home;
use hermes_gateway::bridge::events::{Cursor, EventFeed, EventLimits};
use hermes_testkit::{eventually, eventually_some};

use super::{KEY, TIMEOUT, all, chat, feed, texts, user, with_chat};

pub(super) struct PythonWriter {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl PythonWriter {
    pub(super) fn start(home: &Home, mode: &str) -> Self {
        let script = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/it/bridge/events/writer.py"
        );
        let mut child = Command::new("python3")
            .arg(script)
            .arg(home.path().join("state.db"))
            .args([mode, "s1"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut writer = Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
        };
        assert_eq!(writer.line(), "ready");
        writer
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Writes a message. Tells when that was done.
    pub(super) fn write_message(&mut self, text: &str) -> f64 {
        writeln!(self.input, "{text}").unwrap();
        self.line().parse().unwrap()
    }

    pub(super) fn end(mut self) {
        drop(self.input);
        self.child.wait().unwrap();
    }
}

async fn another_process_is_heard(mode: &str) {
    let (_directory, home, store, _) = with_chat().await;
    store.close().await;
    let mut writer = PythonWriter::start(&home, mode);
    let feed = feed(&home).await;
    for number in 0..5_u64 {
        let waiting = tokio::time::timeout(TIMEOUT, feed.wait(Cursor(number), Some(KEY)));
        let speech = tokio::task::spawn_blocking(move || {
            writer.write_message(&format!("message {number}"));
            writer
        });
        let (page, back) = tokio::join!(waiting, speech);
        writer = back.unwrap();
        let page = page.unwrap().unwrap();
        assert_eq!(texts(&page.events), [format!("message {number}")]);
        assert_eq!(page.events[0].cursor, Cursor(number + 1));
    }
    writer.end();
    feed.close().await;
}

#[tokio::test]
async fn a_commit_to_the_write_ahead_log_wakes_whoever_waits() {
    another_process_is_heard("wal").await;
}

#[tokio::test]
async fn a_commit_with_a_rollback_journal_wakes_whoever_waits() {
    another_process_is_heard("delete").await;
}

/// In a child: the home to follow.
const HOME: &str = "TEST_CHILD_HOME";

/// Follows a home in a process of its own, which prints every event.
fn follower(home: &Home, after: u64) -> Child {
    Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "bridge::events::processes::a_killed_bridge_loses_and_doubles_nothing",
            "--nocapture",
        ])
        .env(HOME, home.path())
        .env("TEST_CHILD_AFTER", after.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

async fn follow(home: &Home) {
    let mut after = Cursor(env::var("TEST_CHILD_AFTER").unwrap().parse().unwrap());
    let feed = EventFeed::open(home, EventLimits::default()).await;
    println!("\nat work");
    loop {
        let page = feed.wait(after, None).await.unwrap();
        for text in texts(&page.events) {
            after = page.events[0].cursor;
            println!("{} {text}", after.0);
        }
    }
}

#[tokio::test]
async fn a_killed_bridge_loses_and_doubles_nothing() {
    if let Some(home) = env::var_os(HOME).map(Home::at) {
        return follow(&home).await;
    }
    let (_directory, home, store, session) = with_chat().await;
    feed(&home).await.close().await;
    let mut saved = 0;
    let mut heard = Vec::new();
    let mut number = 0;
    for round in 0..5 {
        let mut child = follower(&home, saved);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "at work"));
        for _ in 0..10 {
            let text = format!("message {number}");
            store.append(&session, &user(&text)).await.unwrap();
            number += 1;
        }
        // Killed in the middle of it.
        for line in lines.by_ref().take(3 + round) {
            let line = line.unwrap();
            let (cursor, text) = line.split_once(' ').unwrap();
            saved = cursor.parse().unwrap();
            heard.push(text.to_owned());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        store
            .append(&session, &user(&format!("message {number}")))
            .await
            .unwrap();
        number += 1;
    }
    let feed = feed(&home).await;
    let rest = eventually_some(TIMEOUT, async || {
        let rest = feed.poll(Cursor(saved), None, 1000).await.unwrap();
        (rest.last == Cursor(number)).then_some(rest)
    });
    let rest = rest.await.unwrap();
    heard.extend(texts(&rest.events));
    let expected: Vec<_> = (0..number).map(|n| format!("message {n}")).collect();
    assert_eq!(heard, expected);
    assert_eq!((rest.last, rest.dropped), (Cursor(number), 0));
    feed.close().await;
    store.close().await;
}

#[tokio::test]
async fn many_who_wait_are_all_woken_by_one_message() {
    let (_directory, home, store, session) = with_chat().await;
    let other = chat(&store, "s2", "other").await;
    let feed = feed(&home).await;
    let mut waiting = tokio::task::JoinSet::new();
    let begun = Arc::new(AtomicUsize::new(0));
    for number in 0..200 {
        let (feed, begun) = (feed.clone(), Arc::clone(&begun));
        let key = if number % 2 == 0 { Some(KEY) } else { None };
        waiting.spawn(async move {
            begun.fetch_add(1, Ordering::Relaxed);
            feed.wait(Cursor(1), key).await.unwrap()
        });
    }
    assert!(eventually(TIMEOUT, || begun.load(Ordering::Relaxed) == 200).await);
    store.append(&other, &user("not for all")).await.unwrap();
    store.append(&session, &user("for all")).await.unwrap();
    for _ in 0..200 {
        let page = tokio::time::timeout(TIMEOUT, waiting.join_next());
        let page = page.await.unwrap().unwrap().unwrap();
        assert_eq!(texts(&page.events), ["for all"]);
    }
    assert_eq!(all(&feed).await, ["not for all", "for all"]);
    feed.close().await;
    store.close().await;
}
