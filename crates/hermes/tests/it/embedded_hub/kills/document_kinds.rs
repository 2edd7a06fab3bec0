//! Kinds of writes to the documents that hold for the whole Hub, of which every revision is kept.

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    super::real_hub::RealHub,
    kinds::{Write, WriteKind, WriteRecord, content, is_latest},
};

const POLICY: &str = "/v1/agent-policy";
const IMPACT: &str = "/v1/config/tenant-impact";

/// More jobs than are ever made.
const MOST_JOBS: usize = 10_000;

/// What a round begins with, and every restoration of it goes back to.
async fn begin_with(hub: &RealHub, (method, path, body): Write) {
    hub.request(method, &path, &body).await.expect(200);
}

pub(super) async fn prepare(hub: &RealHub) {
    begin_with(hub, put_policy(MOST_JOBS)).await;
    begin_with(hub, patch_impact(0)).await;
}

fn put_policy(most: usize) -> Write {
    let body = json!({"cron": {"maxJobs": most}});
    (Method::PUT, POLICY.into(), body)
}

fn patch_impact(number: usize) -> Write {
    let body = json!({"feature": {"number": number}});
    (Method::PATCH, IMPACT.into(), body)
}

fn restore(document: &str, revision: u64) -> Write {
    let path = format!("{document}/revisions/{revision}/restore");
    (Method::POST, path, json!({}))
}

/// Puts back what was there before a write.
fn undo(document: &str, written: &Value) -> Write {
    restore(document, written["revision"].as_u64().unwrap() - 1)
}

/// No revision is lost, and none is made by nobody.
#[track_caller]
fn assert_revision(record: &WriteRecord, shown: &Value) {
    if let Some((_, last)) = record.done.last() {
        let last = last["revision"].as_u64().unwrap();
        let is_kept = (last..=last + 1).contains(&shown["revision"].as_u64().unwrap());
        assert!(is_kept, "{last}: {}", shown["revision"]);
    }
}

pub(super) static DOCUMENT_KINDS: [WriteKind; 3] = [
    WriteKind {
        name: "put the policy and restore the one before",
        write: |_, number| put_policy(MOST_JOBS + 1 + number),
        then: Some(|put| undo(POLICY, put)),
        check: |hub, record, _| {
            Box::pin(async move {
                let shown = hub.get(POLICY).await;
                let most = &shown["policy"]["cron"]["maxJobs"];
                let fits = |number: usize| {
                    let put = MOST_JOBS + 1 + number;
                    let is_put = number.is_multiple_of(2);
                    *most == json!(if is_put { put } else { MOST_JOBS })
                };
                assert!(is_latest(record, fits), "{shown}");
                assert_revision(record, &shown);
                begin_with(hub, put_policy(MOST_JOBS)).await;
            })
        },
    },
    WriteKind {
        name: "patch the configuration and restore the one before",
        write: |_, number| patch_impact(1 + number),
        then: Some(|patched| undo(IMPACT, patched)),
        check: |hub, record, _| {
            Box::pin(async move {
                let shown = hub.get(IMPACT).await;
                let found = &shown["config"]["feature"]["number"];
                let fits = |number: usize| {
                    let is_patch = number.is_multiple_of(2);
                    *found == json!(if is_patch { 1 + number } else { 0 })
                };
                assert!(is_latest(record, fits), "{shown}");
                assert_revision(record, &shown);
                begin_with(hub, patch_impact(0)).await;
            })
        },
    },
    WriteKind {
        name: "put the specialization and restore it",
        write: |_, number| {
            let body = json!({"content": content(number)});
            (Method::PUT, "/v1/agent-specialization".into(), body)
        },
        then: Some(|put| {
            let revision = put["revision"].as_u64().unwrap();
            restore("/v1/agent-specialization", revision)
        }),
        check: |hub, record, _| {
            Box::pin(async move {
                let shown = hub.get("/v1/agent-specialization").await;
                let text = shown["content"].as_str().unwrap().to_owned();
                let put = |number: usize| number - number % 2;
                assert!(is_latest(record, |number| text == content(put(number))));
                assert_revision(record, &shown);
            })
        },
    },
];
