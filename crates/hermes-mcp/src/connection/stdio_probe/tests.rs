use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf},
    task::JoinSet,
};

use super::*;
use crate::{
    connection::connect::client_config, server_request::OfferedCapabilities,
    transport::stdio::LineTransport,
};

type Memory = LineTransport<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

/// What a server in memory does with one request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Does {
    Answer,
    AnswerEmpty,
    Refuse,
    Ignore,
    Die,
}

/// A server that reads nothing before its start is over.
#[derive(Clone, Copy)]
struct ServerBehavior {
    start: Duration,
    discover: Does,
    initialize: Does,
}

impl ServerBehavior {
    fn legacy(seconds: u64) -> Self {
        Self {
            start: Duration::from_secs(seconds),
            discover: Does::Refuse,
            initialize: Does::Answer,
        }
    }

    fn stateless(seconds: u64) -> Self {
        Self {
            start: Duration::from_secs(seconds),
            discover: Does::Answer,
            initialize: Does::Refuse,
        }
    }

    async fn serve(self, wire: DuplexStream, received: Arc<Mutex<Vec<Value>>>) {
        tokio::time::sleep(self.start).await;
        let (reader, mut writer) = tokio::io::split(wire);
        let mut lines = BufReader::new(reader).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            received.lock().unwrap().push(message.clone());
            let (does, answer) = match message["method"].as_str().unwrap_or_default() {
                "server/discover" => (
                    self.discover,
                    json!({
                        "supportedVersions": ["2026-07-28"], "capabilities": {},
                        "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                    }),
                ),
                "initialize" => (
                    self.initialize,
                    json!({
                        "protocolVersion": "2025-11-25", "capabilities": {},
                        "serverInfo": { "name": "memory", "version": "1" },
                    }),
                ),
                _ => continue,
            };
            let mut reply = json!({ "jsonrpc": "2.0", "id": message["id"] });
            match does {
                Does::Answer => reply["result"] = answer,
                Does::AnswerEmpty => reply["result"] = json!({}),
                Does::Refuse => reply["error"] = json!({ "code": -32601, "message": "no" }),
                Does::Ignore => continue,
                Does::Die => return,
            }
            writer
                .write_all(format!("{reply}\n").as_bytes())
                .await
                .unwrap();
        }
    }
}

/// How a probe went.
struct ProbeOutcome {
    result: Result<(HandshakeMode, Winner), OpenError>,
    after: Duration,
    starts: usize,
    /// What the first process received.
    received: Vec<Value>,
}

impl ProbeOutcome {
    fn methods(&self) -> Vec<&str> {
        let methods = self.received.iter().map(|message| &message["method"]);
        methods.filter_map(Value::as_str).collect()
    }
}

/// A connection of 60 s to a server whose first and second process behave like this.
async fn probe_outcome(first: ServerBehavior, second: ServerBehavior) -> ProbeOutcome {
    let mut servers = JoinSet::new();
    let received = Arc::<Mutex<Vec<Value>>>::default();
    let mut starts = 0;
    let mut start = |behavior: ServerBehavior, received: Arc<Mutex<Vec<Value>>>| {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        servers.spawn(behavior.serve(theirs, received));
        starts += 1;
        let (reader, writer) = tokio::io::split(ours);
        Memory::new(reader, writer)
    };
    let began = Instant::now();
    let times = ProbeSchedule {
        initialize: Some(Duration::from_secs(3)),
        second: Some(Duration::from_secs(30)),
    };
    let transport = start(first, received.clone());
    let config = client_config(OfferedCapabilities::default());
    let start_second = async || Some(start(second, Arc::default()));
    let probed = probe(transport, &config, times, start_second, || {});
    let outcome = tokio::time::timeout(Duration::from_mins(1), probed).await;
    let outcome = outcome.unwrap_or(Err(OpenError::NoReply));
    let after = began.elapsed();
    let result = outcome.map(|probed| (probed.opening, probed.winner));
    let received = received.lock().unwrap().clone();
    ProbeOutcome {
        result,
        after,
        starts,
        received,
    }
}

const LITTLE: Duration = Duration::from_millis(1500);

#[tokio::test(start_paused = true)]
async fn a_slow_server_of_either_era_is_ready_when_it_has_started_and_is_started_once() {
    for seconds in [1, 8, 12, 20, 29] {
        for (behavior, opening) in [
            (ServerBehavior::legacy(seconds), HandshakeMode::Initialize),
            (ServerBehavior::stateless(seconds), HandshakeMode::Discover),
        ] {
            let outcome = probe_outcome(behavior, behavior).await;
            let (answered, winner) = outcome.result.as_ref().unwrap();
            assert_eq!(
                (*answered, *winner),
                (opening, Winner::First),
                "{seconds} s"
            );
            assert_eq!(outcome.starts, 1, "{seconds} s");
            let start = Duration::from_secs(seconds);
            assert!(
                outcome.after < start + LITTLE,
                "{seconds} s: {:?}",
                outcome.after
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn beyond_half_of_its_time_a_server_is_started_twice_and_still_as_fast() {
    for (behavior, opening) in [
        (ServerBehavior::legacy(45), HandshakeMode::Initialize),
        (ServerBehavior::stateless(45), HandshakeMode::Discover),
    ] {
        let outcome = probe_outcome(behavior, behavior).await;
        let (answered, winner) = outcome.result.as_ref().unwrap();
        assert_eq!((*answered, *winner), (opening, Winner::First));
        assert_eq!(outcome.starts, 2);
        assert!(
            outcome.after < Duration::from_secs(45) + LITTLE,
            "{:?}",
            outcome.after
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_fast_server_is_asked_no_more_than_it_takes() {
    let stateless = probe_outcome(ServerBehavior::stateless(1), ServerBehavior::stateless(1)).await;
    assert_eq!(stateless.methods(), ["server/discover"]);
    let legacy = probe_outcome(ServerBehavior::legacy(1), ServerBehavior::legacy(1)).await;
    assert_eq!(legacy.methods(), ["server/discover", "initialize"]);
    assert!(legacy.after < Duration::from_secs(1) + LITTLE);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_the_probe_is_initialized_after_three_seconds() {
    let behavior = ServerBehavior {
        discover: Does::Ignore,
        ..ServerBehavior::legacy(0)
    };
    let outcome = probe_outcome(behavior, behavior).await;
    assert_eq!(
        outcome.result.unwrap(),
        (HandshakeMode::Initialize, Winner::First)
    );
    assert_eq!(outcome.starts, 1);
    assert!(outcome.after >= Duration::from_secs(3) && outcome.after < Duration::from_secs(4));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_the_probe_leaves_mute_gets_a_second_process() {
    let mute = ServerBehavior {
        discover: Does::Ignore,
        initialize: Does::Ignore,
        ..ServerBehavior::legacy(0)
    };
    let outcome = probe_outcome(mute, ServerBehavior::legacy(2)).await;
    assert_eq!(
        outcome.result.unwrap(),
        (HandshakeMode::Initialize, Winner::Second)
    );
    assert_eq!(outcome.starts, 2);
    assert!(outcome.after < Duration::from_secs(32) + LITTLE);
}

#[tokio::test(start_paused = true)]
async fn a_slow_server_that_ignores_the_probe_or_answers_nothing_in_it_needs_no_second_process() {
    for discover in [Does::Ignore, Does::AnswerEmpty] {
        let behavior = ServerBehavior {
            discover,
            ..ServerBehavior::legacy(12)
        };
        let outcome = probe_outcome(behavior, behavior).await;
        assert_eq!(
            outcome.result.unwrap(),
            (HandshakeMode::Initialize, Winner::First)
        );
        assert_eq!(outcome.starts, 1);
        assert!(outcome.after < Duration::from_secs(12) + LITTLE);
    }
}

#[tokio::test(start_paused = true)]
async fn what_spoils_a_process_is_told_at_once() {
    let mortal = ServerBehavior {
        discover: Does::Die,
        ..ServerBehavior::legacy(12)
    };
    let died = probe_outcome(mortal, mortal).await;
    assert!(matches!(died.result, Err(OpenError::Closed)));
    assert!(died.after < Duration::from_secs(12) + LITTLE);

    let empty = ServerBehavior {
        discover: Does::AnswerEmpty,
        ..ServerBehavior::legacy(1)
    };
    let answered = probe_outcome(empty, empty).await;
    assert!(matches!(answered.result, Err(OpenError::Other(_))));
    assert_eq!(answered.methods(), ["server/discover"]);

    let strict = ServerBehavior {
        initialize: Does::Refuse,
        ..ServerBehavior::legacy(1)
    };
    let refused = probe_outcome(strict, strict).await;
    let Err(OpenError::Refused { code, .. }) = refused.result else {
        panic!("{:?}", refused.result)
    };
    assert_eq!(code, -32601);
}

#[tokio::test(start_paused = true)]
async fn the_death_of_one_process_leaves_the_other_its_time() {
    let mortal = ServerBehavior {
        discover: Does::Die,
        ..ServerBehavior::legacy(35)
    };
    let first_dies = probe_outcome(mortal, ServerBehavior::legacy(10)).await;
    assert_eq!(
        first_dies.result.unwrap(),
        (HandshakeMode::Initialize, Winner::Second)
    );
    assert!(first_dies.after < Duration::from_secs(40) + LITTLE);

    let mortal = ServerBehavior {
        initialize: Does::Die,
        ..ServerBehavior::legacy(1)
    };
    let second_dies = probe_outcome(ServerBehavior::stateless(40), mortal).await;
    assert_eq!(
        second_dies.result.unwrap(),
        (HandshakeMode::Discover, Winner::First)
    );
}

#[tokio::test(start_paused = true)]
async fn no_number_is_used_twice_on_one_connection() {
    let outcome = probe_outcome(ServerBehavior::legacy(8), ServerBehavior::legacy(8)).await;
    let numbers: Vec<&Value> = outcome
        .received
        .iter()
        .map(|message| &message["id"])
        .collect();
    assert_eq!(numbers, [&json!(DISCOVER_ID), &json!(INITIALIZE_ID)]);
}
