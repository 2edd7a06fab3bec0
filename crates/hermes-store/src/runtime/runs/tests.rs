use hermes_config::Home;
use serde_json::json;

use super::*;

fn new(id: &str, key: Option<(&str, &str)>) -> NewRun {
    NewRun {
        id: id.into(),
        session: Some(SessionId::parse("s1").unwrap()),
        source: "api".into(),
        job: None,
        input: json!("Hi"),
        idempotency: key.map(|(key, fingerprint)| IdempotencyKey {
            key: key.into(),
            fingerprint: fingerprint.into(),
        }),
    }
}

fn event(name: &str) -> Map<String, Value> {
    json!({"event": name}).as_object().unwrap().clone()
}

fn end(status: RunStatus) -> RunEnd {
    RunEnd {
        status,
        session: None,
        output: Some("Hello".into()),
        usage: Some(json!({"total_tokens": 3})),
        error: None,
        event: event("run.completed"),
    }
}

#[tokio::test]
async fn events_are_numbered_from_one_without_a_gap() {
    let store = RuntimeStore::in_memory().await.unwrap();
    store.create_run(&new("run_a", None)).await.unwrap();
    store.create_run(&new("run_b", None)).await.unwrap();
    let two = [event("run.started"), event("message.delta")];
    let status = Some(RunStatus::Running);
    assert_eq!(
        store
            .append_run_events("run_a", &two, status)
            .await
            .unwrap(),
        2
    );
    assert_eq!(
        store
            .append_run_events("run_b", &two[..1], None)
            .await
            .unwrap(),
        1
    );
    assert_eq!(
        store
            .append_run_events("run_a", &two[1..], None)
            .await
            .unwrap(),
        3
    );
    let after = store.run_events_after("run_a", 1, 10).await.unwrap();
    let numbers: Vec<i64> = after.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, [2, 3]);
    let run = store.run("run_a").await.unwrap().unwrap();
    assert_eq!((run.status, run.last_seq), (RunStatus::Running, 3));
    assert_eq!(run.last_event.as_deref(), Some("message.delta"));
}

#[tokio::test]
async fn what_has_ended_is_not_changed_again() {
    let store = RuntimeStore::in_memory().await.unwrap();
    store.create_run(&new("run_a", None)).await.unwrap();
    assert!(
        store
            .finish_run("run_a", &end(RunStatus::Completed))
            .await
            .unwrap()
    );
    assert!(
        !store
            .finish_run("run_a", &end(RunStatus::Failed))
            .await
            .unwrap()
    );
    assert!(
        !store
            .set_run_status("run_a", RunStatus::Running)
            .await
            .unwrap()
    );
    let run = store.run("run_a").await.unwrap().unwrap();
    assert_eq!((run.status, run.last_seq), (RunStatus::Completed, 1));
    assert_eq!(run.output.as_deref(), Some("Hello"));
    assert!(store.unfinished_runs().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_run_that_stops_does_not_run_again() {
    let store = RuntimeStore::in_memory().await.unwrap();
    store.create_run(&new("run_a", None)).await.unwrap();
    assert!(
        store
            .set_run_status("run_a", RunStatus::Stopping)
            .await
            .unwrap()
    );
    assert!(
        !store
            .set_run_status("run_a", RunStatus::Running)
            .await
            .unwrap()
    );
    let unfinished = store.unfinished_runs().await.unwrap();
    assert_eq!(unfinished[0].status, RunStatus::Stopping);
}

#[tokio::test]
async fn the_same_request_twice_is_one_run_and_another_one_a_conflict() {
    let store = RuntimeStore::in_memory().await.unwrap();
    let first = store
        .create_run(&new("run_a", Some(("k", "x"))))
        .await
        .unwrap();
    assert_eq!(first, RunAcceptance::New);
    let second = store
        .create_run(&new("run_b", Some(("k", "x"))))
        .await
        .unwrap();
    let RunAcceptance::Same(run) = second else {
        panic!("{second:?}");
    };
    assert_eq!(run.id, "run_a");
    let third = store
        .create_run(&new("run_c", Some(("k", "y"))))
        .await
        .unwrap();
    assert_eq!(third, RunAcceptance::Conflict);
    assert!(store.run("run_b").await.unwrap().is_none());
}

#[tokio::test]
async fn old_runs_are_forgotten_with_their_events_and_unfinished_ones_are_not() {
    let store = RuntimeStore::in_memory().await.unwrap();
    for id in ["run_a", "run_b"] {
        store.create_run(&new(id, None)).await.unwrap();
    }
    store
        .finish_run("run_a", &end(RunStatus::Completed))
        .await
        .unwrap();
    assert_eq!(store.prune_runs(Duration::from_mins(1)).await.unwrap(), 0);
    assert_eq!(store.prune_runs(Duration::ZERO).await.unwrap(), 1);
    assert!(store.run("run_a").await.unwrap().is_none());
    assert!(
        store
            .run_events_after("run_a", 0, 10)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(store.run("run_b").await.unwrap().is_some());
}

#[tokio::test]
async fn an_accepted_run_is_there_when_the_database_is_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let home = Home::at(directory.path());
    let store = RuntimeStore::open(&home).await.unwrap();
    store.create_run(&new("run_a", None)).await.unwrap();
    let again = RuntimeStore::open(&home).await.unwrap();
    let run = again.run("run_a").await.unwrap().unwrap();
    assert_eq!((run.status, run.input), (RunStatus::Queued, json!("Hi")));
}

#[test]
fn names_of_runs_have_32_digits() {
    let id = new_run_id();
    let digits = id.strip_prefix("run_").unwrap();
    assert_eq!(digits.len(), 32);
    assert!(digits.chars().all(|digit| digit.is_ascii_hexdigit()));
}
