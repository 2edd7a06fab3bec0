//! A Hub that is killed in the middle of every kind of write: what it acknowledged is there, what it did not is whole
//! or absent, and its log is unbroken.

mod decisions;
mod document_kinds;
mod job_kinds;
mod kinds;
mod more_kinds;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use hermes_testkit::{eventually, process_exists};
use reqwest::Method;
use serde_json::json;
use tokio::task::JoinSet;

use self::{
    document_kinds::DOCUMENT_KINDS,
    job_kinds::JOB_KINDS,
    kinds::{KINDS, ROTATED, SECOND, WriteKind, WriteRecord, write_to_share},
    more_kinds::MORE_KINDS,
};
use super::real_hub::{HubReply, RealHub, TIMEOUT};
use crate::harness::test_home::TestHome;

/// How often the Hub is killed.
const ROUNDS: usize = 5;

/// Of each kind, as many are answered before the Hub is killed: what makes something, and what takes it away.
const EACH: usize = 2;

/// Between two writes of a kind that never rests: others have their turn, and all that was answered is looked at later.
const PAUSE: Duration = Duration::from_millis(40);

/// How many writes of a kind were answered in a round.
type AnsweredCount = Arc<AtomicUsize>;

/// How many writes of a kind there are in a round; no number means that it never rests. With one under way, what comes
/// and goes may be either, so half of the kinds rest when the Hub is killed, each after making and after taking away.
fn rests_after(place: usize, round: usize) -> Option<usize> {
    (place + round)
        .is_multiple_of(2)
        .then_some(EACH + round / 2 % 2)
}

/// Writes one after the other until the Hub is gone.
async fn write(
    hub: Arc<RealHub>,
    kind: &'static WriteKind,
    round: usize,
    most: Option<usize>,
    answered: AnsweredCount,
) -> WriteRecord {
    let mut record = WriteRecord {
        kind,
        done: Vec::new(),
        last: 0,
    };
    let mut number = 0;
    loop {
        record.last = number;
        let made = record.done.last().filter(|_| !number.is_multiple_of(2));
        let (method, path, body) = match (kind.then, made) {
            (Some(then), Some((_, made))) => then(made),
            _ => (kind.write)(round, number),
        };
        match hub.try_request(method, &path, &body).await {
            None => break,
            // The queue is full, or the database has too much to do: nothing was written.
            Some(HubReply {
                status: 429 | 503, ..
            }) => tokio::time::sleep(Duration::from_millis(20)).await,
            // What the write before made may be over by itself: a run.
            Some(HubReply { status: 409, .. }) if kind.then.is_some() => number += 1,
            Some(HubReply { status, body }) => {
                assert!((200..300).contains(&status), "{}: {body}", kind.name);
                record.done.push((number, body));
                number += 1;
            }
        }
        answered.store(number, Ordering::Relaxed);
        if number > EACH {
            tokio::time::sleep(PAUSE).await;
        }
        if most.is_some_and(|most| number >= most) {
            hub.gone().await;
            break;
        }
    }
    record
}

impl RealHub {
    /// Waits for its end.
    async fn gone(&self) {
        let gone = eventually(TIMEOUT, || !process_exists(self.pid));
        assert!(gone.await, "the Hub does not end");
    }
}

fn start(home: TestHome) -> RealHub {
    RealHub::with_arguments(
        home,
        &[
            "--set",
            "runtime=mock",
            "--set",
            "limits.rps_per_token=100000",
            // All revoked tokens are tried.
            "--set",
            "limits.auth_failures_per_minute=100000",
        ],
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_when_the_hub_is_killed_in_the_middle_of_writes() {
    let home = TestHome::fresh();
    std::fs::create_dir(home.path()).unwrap();
    let mut hub = start(home);
    for id in ["team", "second", "left"] {
        hub.request(Method::POST, "/v1/groups", &json!({"id": id}))
            .await
            .expect(201);
    }
    let groups = json!([{"id": "team", "access": "write"}, {"id": "second", "access": "write"}]);
    for id in ["fixed", "coming", "gated"] {
        let tenant = json!({"id": id, "groups": groups, "start": false});
        hub.request(Method::POST, "/v1/tenants", &tenant)
            .await
            .expect(201);
        hub.wait_for(&format!("/v1/tenants/{id}"), |it| it["status"] == "ready")
            .await;
    }
    more_kinds::prepare(&hub);
    document_kinds::prepare(&hub).await;
    job_kinds::prepare(&hub).await;
    let token = json!({"name": "rotated", "role": "viewer"});
    let token = hub
        .request(Method::POST, "/v1/tokens", &token)
        .await
        .expect(201);
    ROTATED
        .set(token["id"].as_str().unwrap().to_owned())
        .unwrap();
    let (_, path, body) = write_to_share(0);
    hub.request(Method::PUT, &path, &body).await.expect(201);
    for path in ["moved/here", "log"] {
        let file = json!({"path": path, "content": "begun\n"});
        hub.request(Method::PUT, &format!("{SECOND}/files/content"), &file)
            .await
            .expect(201);
    }
    for round in 0..ROUNDS {
        let shared = Arc::new(hub);
        let mut writers = JoinSet::new();
        let mut all_answered: Vec<AnsweredCount> = Vec::new();
        let others = MORE_KINDS.iter().chain(&JOB_KINDS).chain(&DOCUMENT_KINDS);
        for (place, kind) in KINDS.iter().chain(others).enumerate() {
            let answered = AnsweredCount::default();
            all_answered.push(Arc::clone(&answered));
            let most = rests_after(place, round);
            writers.spawn(write(Arc::clone(&shared), kind, round, most, answered));
        }
        // Another moment each time, in the middle of things.
        let mut enough = None;
        let is_amid = eventually(TIMEOUT, || {
            if let Some(ended) = writers.try_join_next() {
                panic!("{} ended before the Hub", ended.unwrap().kind.name);
            }
            let answered = all_answered
                .iter()
                .map(|answered| answered.load(Ordering::Relaxed));
            let sum: usize = answered.clone().sum();
            answered.min() >= Some(EACH) && sum >= *enough.get_or_insert(sum + 13 * round)
        });
        assert!(is_amid.await, "the Hub answers too little");
        shared.kill();
        let records = writers.join_all().await;
        let Ok(killed) = Arc::try_unwrap(shared) else {
            panic!("a writer still has the Hub");
        };
        hub = start(killed.into_home());
        for record in records {
            (record.kind.check)(&hub, &record, round).await;
        }
        let verified = hub.get("/v1/audit/verify").await;
        assert_eq!(verified["ok"], true, "{verified}");
        // What the killed one left is cleared away beside everything else.
        let share = hub.data().join("shares/team");
        let is_clean = eventually(TIMEOUT, || std::fs::read_dir(&share).unwrap().count() == 1);
        assert!(is_clean.await, "half a file was left");
    }
}
