//! Kinds of writes to cron jobs, and the runs that come of them.

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    super::real_hub::RealHub,
    kinds::{WriteKind, is_latest},
    more_kinds::{left_alone, status, taken_away},
};

const JOBS: &str = "/v1/tenants/fixed/agent-cron";

fn create(id: &str) -> (Method, String, Value) {
    let body = json!({"id": id, "schedule": "0 9 * * *", "prompt": "x"});
    (Method::POST, JOBS.into(), body)
}

/// A job that is paused and resumed.
pub(super) async fn prepare(hub: &RealHub) {
    let (method, path, body) = create("halting");
    hub.request(method, &path, &body).await.expect(201);
}

pub(super) static JOB_KINDS: [WriteKind; 5] = [
    WriteKind {
        name: "make cron jobs",
        write: |round, number| {
            let body = json!({
                "id": format!("j{round}-{number}"), "schedule": "0 9 * * *", "prompt": "x",
            });
            (Method::POST, "/v1/tenants/fixed/agent-cron".into(), body)
        },
        then: None,
        check: |hub, record, round| {
            Box::pin(async move {
                let jobs = hub.get("/v1/tenants/fixed/agent-cron").await;
                let jobs = jobs["jobs"].as_array().unwrap().clone();
                for (number, _) in &record.done {
                    let id = format!("j{round}-{number}");
                    assert!(jobs.iter().any(|job| job["id"] == id), "{id} is gone");
                }
            })
        },
    },
    WriteKind {
        name: "change a job",
        write: |round, number| {
            let jobs = "/v1/tenants/fixed/agent-cron";
            let prompt = format!("Prompt {number}");
            if number == 0 {
                let body =
                    json!({"id": format!("c{round}"), "schedule": "0 9 * * *", "prompt": prompt});
                (Method::POST, jobs.into(), body)
            } else {
                let body = json!({"prompt": prompt});
                (Method::PATCH, format!("{jobs}/c{round}"), body)
            }
        },
        then: None,
        check: |hub, record, round| {
            Box::pin(async move {
                let path = format!("/v1/tenants/fixed/agent-cron/c{round}");
                let said = hub.request(Method::GET, &path, &Value::Null).await;
                let prompt = said.body["job"]["prompt"].as_str().unwrap_or_default();
                let fits = |number: usize| prompt == format!("Prompt {number}");
                assert!(is_latest(record, fits), "{said:?}");
            })
        },
    },
    WriteKind {
        name: "delete jobs",
        write: |round, number| {
            let id = format!("x{round}-{}", number / 2);
            if number.is_multiple_of(2) {
                create(&id)
            } else {
                (Method::DELETE, format!("{JOBS}/{id}"), Value::Null)
            }
        },
        then: None,
        check: |hub, record, round| {
            Box::pin(async move {
                let path = |number: usize| format!("{JOBS}/x{round}-{}", number / 2);
                for number in taken_away(record) {
                    assert_eq!(status(hub, &path(number)).await, 404);
                }
                for number in left_alone(record) {
                    assert_eq!(status(hub, &path(number)).await, 200);
                }
            })
        },
    },
    WriteKind {
        name: "pause and resume a job",
        write: |_, number| {
            if number.is_multiple_of(2) {
                let body = json!({"reason": format!("Pause {number}")});
                (Method::POST, format!("{JOBS}/halting/pause"), body)
            } else {
                (Method::POST, format!("{JOBS}/halting/resume"), json!({}))
            }
        },
        then: None,
        check: |hub, record, _| {
            Box::pin(async move {
                let shown = hub.get(&format!("{JOBS}/halting")).await;
                let job = &shown["job"];
                let fits = |number: usize| {
                    if number.is_multiple_of(2) {
                        job["state"] == "paused"
                            && job["paused_reason"] == format!("Pause {number}")
                    } else {
                        job["state"] == "scheduled" && job["enabled"] == true
                    }
                };
                assert!(is_latest(record, fits), "{job}");
            })
        },
    },
    WriteKind {
        name: "let jobs run",
        // Each job once: it does not begin again while it runs.
        write: |round, number| {
            let id = format!("r{round}-{}", number / 2);
            if number.is_multiple_of(2) {
                create(&id)
            } else {
                (Method::POST, format!("{JOBS}/{id}/run"), json!({}))
            }
        },
        then: None,
        check: |hub, record, round| {
            Box::pin(async move {
                for (number, said) in &record.done {
                    let Some(id) = said["runId"].as_str() else {
                        continue;
                    };
                    let run = hub
                        .wait_for_end(&format!("/v1/tenants/fixed/runs/{id}"))
                        .await;
                    assert_eq!(run["status"], "completed", "{run}");
                    let path = format!("{JOBS}/r{round}-{}", number / 2);
                    let executions = hub.get(&path).await["executions"].clone();
                    let executions = executions.as_array().unwrap();
                    assert_eq!(executions.len(), 1, "{executions:?}");
                    assert_eq!(executions[0]["runId"], id);
                }
                // One that nobody heard of runs to its end as well, or never began.
                let path = format!("{JOBS}/r{round}-{}", record.last / 2);
                if status(hub, &path).await == 200 {
                    let is_over = |job: &Value| {
                        let runs = job["executions"].as_array().unwrap();
                        runs.len() <= 1 && runs.iter().all(|run| run["status"] == "completed")
                    };
                    hub.wait_for(&path, is_over).await;
                }
            })
        },
    },
];
