use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{ServeError, stdio};
use crate::demo::Demo;

mod http;

/// Longer than anything takes that works.
const TIMEOUT: Duration = Duration::from_secs(30);

fn never() -> bool {
    false
}

/// The demo server on two streams, and the client's ends of them.
struct Served {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    server: JoinSet<Result<(), ServeError>>,
    stop: CancellationToken,
}

impl Served {
    fn new(has_gone: fn() -> bool) -> Self {
        let (client, server) = tokio::io::duplex(16 * 1024);
        let (input, output) = tokio::io::split(server);
        let stop = CancellationToken::new();
        let mut task = JoinSet::new();
        task.spawn(stdio::serve_on(Demo, input, output, has_gone, stop.clone()));
        let (reader, writer) = tokio::io::split(client);
        Self {
            lines: BufReader::new(reader).lines(),
            writer,
            server: task,
            stop,
        }
    }

    async fn opened(has_gone: fn() -> bool) -> Self {
        let mut served = Self::new(has_gone);
        served
            .send(
                &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                    "protocolVersion": "2025-11-25", "capabilities": {},
                    "clientInfo": {"name": "test", "version": "1"},
                }}),
            )
            .await;
        assert_eq!(served.answer().await["id"], 0);
        served
            .send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
            .await;
        served
    }

    async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        self.writer.write_all(line.as_bytes()).await.unwrap();
    }

    async fn answer(&mut self) -> Value {
        let line = tokio::time::timeout(TIMEOUT, self.lines.next_line()).await;
        serde_json::from_str(&line.unwrap().unwrap().unwrap()).unwrap()
    }

    async fn ended(&mut self) {
        let ended = tokio::time::timeout(TIMEOUT, self.server.join_next()).await;
        ended.unwrap().unwrap().unwrap().unwrap();
    }
}

fn call(id: usize, tool: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

#[tokio::test]
async fn what_was_asked_before_the_end_of_the_input_is_answered() {
    let mut served = Served::opened(never).await;
    for id in 1..=5 {
        served.send(&call(id, "echo", &json!({"text": "x"}))).await;
    }
    served.writer.shutdown().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(served.answer().await["id"].as_u64().unwrap());
    }
    ids.sort_unstable();
    assert_eq!(ids, [1, 2, 3, 4, 5]);
    served.ended().await;
}

#[tokio::test]
async fn the_end_of_the_input_ends_it_in_the_middle_of_a_call() {
    let mut served = Served::opened(never).await;
    // A minute of counting.
    served.send(&call(1, "count", &json!({"steps": 600}))).await;
    let began = Instant::now();
    served.writer.shutdown().await.unwrap();
    served.ended().await;
    assert!(began.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn it_ends_when_it_is_told_to_even_before_a_client_speaks() {
    let mut served = Served::new(never);
    served.stop.cancel();
    served.ended().await;
    let mut served = Served::opened(never).await;
    served.stop.cancel();
    served.ended().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_is_not_read_without_end() {
    static HAS_GONE: AtomicBool = AtomicBool::new(false);
    let mut served = Served::opened(|| HAS_GONE.load(Ordering::Relaxed)).await;
    let text = "x".repeat(4096);
    let flood = async {
        for id in 1..=20_000 {
            served.send(&call(id, "echo", &json!({"text": text}))).await;
        }
    };
    // 80 MB in all. Writing stops as soon as the streams are full and a few answers wait.
    let flood = tokio::time::timeout(Duration::from_secs(2), flood).await;
    assert!(flood.is_err(), "everything was taken in");
    assert!(served.server.try_join_next().is_none());
    HAS_GONE.store(true, Ordering::Relaxed);
    served.ended().await;
}

#[tokio::test(start_paused = true)]
async fn reading_goes_on_when_the_answers_are_taken() {
    let served = Served::opened(never).await;
    let text = "x".repeat(1024);
    let (mut writer, mut lines) = (served.writer, served.lines);
    let mut writing = JoinSet::new();
    writing.spawn(async move {
        for id in 1..=500 {
            let line = format!("{}\n", call(id, "echo", &json!({"text": text})));
            writer.write_all(line.as_bytes()).await.unwrap();
        }
        writer
    });
    // Time passes when nothing else can be done: the streams are full.
    let written = tokio::time::timeout(Duration::from_secs(1), writing.join_next()).await;
    assert!(written.is_err(), "everything was taken in");
    for _ in 0..500 {
        let line = tokio::time::timeout(TIMEOUT, lines.next_line()).await;
        assert!(line.unwrap().unwrap().unwrap().contains("xxx"));
    }
    served.stop.cancel();
}
