//! A million messages in a thousand conversations: how long a look and a list take. Not part of the usual run:
//! `cargo test -p hermes-gateway --test it -- --ignored --nocapture scale`.

use std::{process::Command, time::Instant};

use hermes_gateway::bridge::{events::Cursor, index::ConversationIndex};
use hermes_store::{Access, Store};

use super::{empty_home, feed, id, user};

/// Fills a store faster than appending would, and without the index for searching.
const FILL: &str = "
import sqlite3, sys
c = sqlite3.connect(sys.argv[1])
for (name,) in c.execute(\"SELECT name FROM sqlite_master WHERE type = 'trigger'\").fetchall():
    c.execute(f'DROP TRIGGER {name}')
prompt = 'You are an assistant. ' * 500
c.executemany('INSERT INTO sessions (id, source, session_key, chat_id, chat_type, display_name, origin_json, '
              'system_prompt, started_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)',
    ((f's{n}', 'telegram', f'agent:main:telegram:dm:{n}', str(n), 'dm', f'Person {n}',
      '{\"platform\": \"telegram\", \"chat_type\": \"dm\", \"chat_id\": \"%d\"}' % n, prompt, n) for n in range(1000)))
c.executemany('INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, ?, ?, ?)',
    ((f's{n % 1000}', 'user', f'message {n} ' + 'x' * 200, 1e9 + n) for n in range(1000000)))
c.commit()
";

fn median(label: &str, mut times: Vec<f64>) {
    times.sort_by(f64::total_cmp);
    let (middle, worst) = (times[times.len() / 2], times[times.len() - 1]);
    println!("{label}: {middle:.2} ms (worst {worst:.2} ms)");
}

fn milliseconds(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute and half a gigabyte"]
async fn a_message_among_a_million_is_heard_at_once() {
    let (_directory, home) = empty_home();
    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    store.close().await;
    let path = home.path().join("state.db");
    let filled = Command::new("python3")
        .args(["-c", FILL])
        .arg(&path)
        .status();
    assert!(filled.unwrap().success());

    let start = Instant::now();
    let feed = feed(&home).await;
    println!("first start of the log: {:.2} ms", milliseconds(start));
    let index = ConversationIndex::open(&home);
    let start = Instant::now();
    assert_eq!(index.entries().await.unwrap().len(), 1000);
    println!("first list: {:.2} ms", milliseconds(start));

    let store = Store::open(&home, Access::ReadWrite).await.unwrap();
    let (mut heard, mut listed, mut again) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..50_u64 {
        let session = id(&format!("s{}", number * 17));
        store.append(&session, &user("new")).await.unwrap();
        let start = Instant::now();
        feed.wait(Cursor(number), None).await.unwrap();
        heard.push(milliseconds(start));
        let start = Instant::now();
        index.entries().await.unwrap();
        listed.push(milliseconds(start));
        let start = Instant::now();
        index.entries().await.unwrap();
        again.push(milliseconds(start));
    }
    median("from an append to its event", heard);
    median("list after a change", listed);
    median("list without a change", again);
    feed.close().await;
    index.close().await;
    store.close().await;
}
