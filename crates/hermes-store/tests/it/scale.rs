//! A million messages: how long finding and adding take. Not part of the usual run:
//! `cargo test -p hermes-store --test it -- --ignored --nocapture scale`.

use std::time::{Duration, Instant};

use hermes_store::{
    Access, MessageQuery, NewSession, SearchOrder, SearchQuery, SessionQuery, Store,
};

use crate::{empty_home, id, user};

const MESSAGES: usize = 1_000_000;
const SESSIONS: usize = 1_000;
const BATCH: usize = 500;

/// Words that look like a conversation's: a few frequent, many rare.
fn text(number: usize) -> String {
    let mut state = number as u64;
    let mut random = move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize
    };
    let mut words: Vec<String> = (0..30)
        .map(|_| {
            let rank = random() % 20_000;
            format!("word{}", rank * rank / 20_000)
        })
        .collect();
    if number.is_multiple_of(100) {
        words[7] = "needle".into();
    }
    if number.is_multiple_of(1000) {
        words[9] = "大别山项目".into();
    }
    if number.is_multiple_of(1_000_000) {
        words[9] = "桂林山水".into();
    }
    words.join(" ")
}

/// The middle of several runs.
async fn median<T>(label: &str, mut work: impl AsyncFnMut() -> T) -> Duration {
    let mut times = Vec::new();
    for _ in 0..15 {
        let start = Instant::now();
        work().await;
        times.push(start.elapsed());
    }
    times.sort();
    println!("{label}: {:?} (worst {:?})", times[7], times[14]);
    times[7]
}

#[tokio::test]
#[ignore = "takes minutes and gigabytes"]
async fn a_term_in_one_of_a_hundred_messages_is_found_at_once() {
    let (_directory, home) = empty_home();
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    let sessions: Vec<_> = (0..SESSIONS)
        .map(|number| id(&format!("s{number:04}")))
        .collect();
    for session in &sessions {
        store
            .create_session(&NewSession::new(session.clone(), "cli"))
            .await
            .unwrap();
    }
    let start = Instant::now();
    for batch in 0..MESSAGES / BATCH {
        let messages: Vec<_> = (0..BATCH)
            .map(|at| user(&text(batch * BATCH + at)))
            .collect();
        store
            .append_all(&sessions[batch % SESSIONS], &messages)
            .await
            .unwrap();
    }
    println!("filled in {:?}", start.elapsed());
    store.close().await;

    let start = Instant::now();
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    println!("opened in {:?}", start.elapsed());
    for (label, search) in [
        ("newest with a term of 1 %", SearchQuery::new("needle")),
        (
            "oldest",
            SearchQuery {
                order: SearchOrder::Oldest,
                ..SearchQuery::new("needle")
            },
        ),
        (
            "best",
            SearchQuery {
                order: SearchOrder::Relevance,
                ..SearchQuery::new("needle")
            },
        ),
        ("two terms", SearchQuery::new("needle word1")),
        ("part of a word", SearchQuery::new("eedl")),
        (
            "a term in one session",
            SearchQuery {
                session: Some(sessions[3].clone()),
                ..SearchQuery::new("needle")
            },
        ),
        ("signs", SearchQuery::new("大别山")),
        ("two signs, frequent", SearchQuery::new("别山")),
        ("two signs, once", SearchQuery::new("桂林")),
        ("no match", SearchQuery::new("absent")),
    ] {
        let time = median(label, async || store.search(&search).await.unwrap()).await;
        if label.starts_with("newest") {
            assert!(time < Duration::from_millis(50), "{time:?}");
        }
    }
    median("append", async || {
        store.append(&sessions[0], &user(&text(1))).await.unwrap()
    })
    .await;
    median("live messages of a session", async || {
        store.active_messages(&sessions[0]).await.unwrap()
    })
    .await;
    median("last page of a session", async || {
        store
            .read_messages(&sessions[0], &MessageQuery::default())
            .await
            .unwrap()
    })
    .await;
    median("list of sessions", async || {
        store.list_sessions(&SessionQuery::default()).await.unwrap()
    })
    .await;
    let start = Instant::now();
    store.close().await;
    println!("closed in {:?}", start.elapsed());
}
