//! A Hub that is killed in the middle of every kind of write: what it acknowledged is there, what it did not is whole
//! or absent, and its log is unbroken.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures::future::BoxFuture;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::real_hub::{RealHub, Said};
use crate::running::TestHome;

/// How often the Hub is killed.
const ROUNDS: usize = 5;

/// What a kind of write did before the Hub died.
struct Record {
    kind: &'static Kind,
    /// Those that were acknowledged, with what came back.
    done: Vec<(usize, Value)>,
    /// The one under way when the Hub died.
    last: usize,
}

/// A kind of write, numbered through, and what must be true afterwards.
struct Kind {
    name: &'static str,
    write: fn(usize, usize) -> (Method, String, Value),
    check: for<'a> fn(&'a RealHub, &'a Record, usize) -> BoxFuture<'a, ()>,
}

/// Every line of a file is the same, so that half a file shows.
fn content(number: usize) -> String {
    format!("{number}\n").repeat(2000)
}

fn write_to_share(number: usize) -> (Method, String, Value) {
    let path = "/v1/tenants/fixed/shares/team/files/content".to_owned();
    let body = json!({"path": "file", "content": content(number)});
    (Method::PUT, path, body)
}

/// A share for writes that would get in the way of others.
const SECOND: &str = "/v1/tenants/fixed/shares/second";

static KINDS: [Kind; 17] = [
    Kind {
        name: "create tenants",
        write: |round, number| {
            let body = json!({"id": format!("t{round}-{number}"), "start": false});
            (Method::POST, "/v1/tenants".into(), body)
        },
        check: |hub, record, round| {
            Box::pin(async move {
                for (number, _) in &record.done {
                    let path = format!("/v1/tenants/t{round}-{number}");
                    hub.wait_for(&path, |tenant| tenant["status"] == "ready")
                        .await;
                    let home = hub.tenant_home(&format!("t{round}-{number}"));
                    assert!(home.join("workspace").is_dir());
                }
            })
        },
    },
    Kind {
        name: "change a tenant",
        write: |_, number| {
            let body = json!({"displayName": format!("Name {number}")});
            (Method::PATCH, "/v1/tenants/fixed".into(), body)
        },
        check: |hub, record, _| {
            Box::pin(async move {
                let tenant = hub.get("/v1/tenants/fixed").await;
                let shown = tenant["displayName"].as_str().unwrap().to_owned();
                let fits = |number: usize| shown == format!("Name {number}");
                assert!(is_latest(record, fits), "{shown}");
            })
        },
    },
    Kind {
        name: "delete and restore a tenant",
        write: |_, number| {
            if number.is_multiple_of(2) {
                (Method::DELETE, "/v1/tenants/coming".into(), Value::Null)
            } else {
                (Method::POST, "/v1/tenants/coming/restore".into(), json!({}))
            }
        },
        check: |hub, record, _| {
            Box::pin(async move {
                let said = hub
                    .ask(Method::GET, "/v1/tenants/coming", &Value::Null)
                    .await;
                let is_there = said.status == 200;
                let fits = |number: usize| is_there != number.is_multiple_of(2);
                assert!(is_latest(record, fits), "{said:?}");
                // The next round begins with one that is there.
                if !is_there {
                    hub.ask(Method::POST, "/v1/tenants/coming/restore", &json!({}))
                        .await
                        .expect(200);
                }
            })
        },
    },
    Kind {
        name: "make tokens",
        write: |_, number| {
            let body = json!({"name": format!("n{number}"), "role": "viewer"});
            (Method::POST, "/v1/tokens".into(), body)
        },
        check: |hub, record, _| {
            Box::pin(async move {
                for (_, token) in &record.done {
                    hub.works(token["token"].as_str().unwrap()).await;
                }
            })
        },
    },
    Kind {
        name: "rotate a token",
        // The old secret lives on, or a rotation that nobody heard of would lock everybody out.
        write: |_, _| {
            let path = format!("/v1/tokens/{}/rotate?grace=600", ROTATED.get().unwrap());
            (Method::POST, path, json!({}))
        },
        check: |hub, record, _| {
            Box::pin(async move {
                if let Some((_, token)) = record.done.last() {
                    hub.works(token["token"].as_str().unwrap()).await;
                }
            })
        },
    },
    Kind {
        name: "write to a share",
        write: |_, number| write_to_share(number),
        check: |hub, record, _| {
            Box::pin(async move {
                let path = "/v1/tenants/fixed/shares/team/files";
                let file = hub.get(&format!("{path}/content?path=file")).await;
                let text = file["content"].as_str().unwrap().to_owned();
                let fits = |number: usize| text == content(number);
                let begin: String = text.chars().take(20).collect();
                assert!(is_latest(record, fits), "{begin}");
                let listed = hub.get(path).await;
                assert_eq!(listed["entries"].as_array().unwrap().len(), 1, "{listed}");
            })
        },
    },
    Kind {
        name: "put the policy",
        write: |_, number| {
            let body = json!({"cron": {"maxJobs": 10_000 + number}});
            (Method::PUT, "/v1/agent-policy".into(), body)
        },
        check: |hub, record, _| {
            Box::pin(async move {
                let policy = hub.get("/v1/agent-policy").await;
                let most = policy["policy"]["cron"]["maxJobs"].as_u64().unwrap();
                let fits = |number: usize| most == 10_000 + number as u64;
                assert!(is_latest(record, fits), "{policy}");
            })
        },
    },
    Kind {
        name: "make cron jobs",
        write: |round, number| {
            let body = json!({
                "id": format!("j{round}-{number}"), "schedule": "0 9 * * *", "prompt": "x",
            });
            (Method::POST, "/v1/tenants/fixed/agent-cron".into(), body)
        },
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
    Kind {
        name: "append to a file",
        write: |round, number| {
            let line = format!("{round}-{number}\n");
            let body = json!({"path": "log", "content": line, "mode": "append"});
            (Method::PUT, format!("{SECOND}/files/content"), body)
        },
        check: |hub, record, round| {
            Box::pin(async move {
                let file = hub.get(&format!("{SECOND}/files/content?path=log")).await;
                let text = file["content"].as_str().unwrap().to_owned();
                for (number, _) in &record.done {
                    let line = format!("{round}-{number}");
                    let count = text.lines().filter(|found| **found == line).count();
                    assert_eq!(count, 1, "{line}: {text}");
                }
            })
        },
    },
    Kind {
        name: "make directories",
        write: |round, number| {
            let body = json!({"path": format!("dirs/{round}/{number}/inside")});
            (Method::PUT, format!("{SECOND}/dirs"), body)
        },
        check: |hub, record, round| {
            Box::pin(async move {
                for (number, _) in &record.done {
                    let path = format!("{SECOND}/stat?path=dirs/{round}/{number}/inside");
                    assert_eq!(hub.get(&path).await["type"], "dir");
                }
            })
        },
    },
    Kind {
        name: "make groups and members of them",
        write: |round, number| {
            let group = format!("g{round}-{}", number / 2);
            if number.is_multiple_of(2) {
                (Method::POST, "/v1/groups".into(), json!({"id": group}))
            } else {
                let path = format!("/v1/groups/{group}/members/coming");
                (Method::PUT, path, json!({"access": "read"}))
            }
        },
        check: |hub, record, round| {
            Box::pin(async move {
                for (number, _) in &record.done {
                    let group = format!("/v1/groups/g{round}-{}", number / 2);
                    if number.is_multiple_of(2) {
                        hub.get(&group).await;
                    } else {
                        let members = hub.get(&format!("{group}/members")).await;
                        let members = members["members"].as_array().unwrap().clone();
                        assert_eq!(members.len(), 1, "{members:?}");
                    }
                }
            })
        },
    },
    Kind {
        name: "set variables",
        write: |round, number| {
            let path = format!("/v1/tenants/fixed/env/V{round}_{number}");
            (
                Method::PUT,
                path,
                json!({"value": format!("value of {number:04}")}),
            )
        },
        check: |hub, record, round| {
            Box::pin(async move {
                let env = hub.get("/v1/tenants/fixed/env").await;
                let env = env["env"].as_array().unwrap().clone();
                for (number, _) in &record.done {
                    let name = format!("V{round}_{number}");
                    let last4 = format!("{number:04}");
                    let found = env.iter().find(|variable| variable["name"] == name);
                    assert_eq!(found.unwrap()["last4"], last4, "{name}");
                }
            })
        },
    },
    Kind {
        name: "patch the configuration",
        write: |_, number| {
            let body = json!({"feature": {"number": number}});
            (Method::PATCH, "/v1/config/tenant-impact".into(), body)
        },
        check: |hub, record, _| {
            Box::pin(async move {
                let config = hub.get("/v1/config/tenant-impact").await;
                let number = &config["config"]["feature"]["number"];
                assert!(
                    is_latest(record, |wanted| *number == json!(wanted)),
                    "{config}"
                );
            })
        },
    },
    Kind {
        name: "put the specialization",
        write: |_, number| {
            let body = json!({"content": content(number)});
            (Method::PUT, "/v1/agent-specialization".into(), body)
        },
        check: |hub, record, _| {
            Box::pin(async move {
                let shown = hub.get("/v1/agent-specialization").await;
                let text = shown["content"].as_str().unwrap().to_owned();
                assert!(is_latest(record, |number| text == content(number)));
            })
        },
    },
    Kind {
        name: "block and unblock",
        write: |_, number| {
            let status = if number.is_multiple_of(2) {
                "blocked"
            } else {
                "active"
            };
            let body = json!({"status": status, "reason": number.to_string()});
            (Method::PUT, "/v1/tenants/gated/access".into(), body)
        },
        check: |hub, record, _| {
            Box::pin(async move {
                let access = hub.get("/v1/tenants/gated/access").await;
                let fits = |number: usize| access["reason"] == number.to_string();
                assert!(is_latest(record, fits), "{access}");
            })
        },
    },
    Kind {
        name: "move a file to and fro",
        write: |_, number| {
            let (from, to) = if number.is_multiple_of(2) {
                ("here", "there")
            } else {
                ("there", "here")
            };
            let body = json!({"from": format!("moved/{from}"), "to": format!("moved/{to}")});
            (Method::POST, format!("{SECOND}/move"), body)
        },
        check: |hub, record, _| {
            Box::pin(async move {
                let listed = hub.get(&format!("{SECOND}/files?path=moved")).await;
                let entries = listed["entries"].as_array().unwrap().clone();
                assert_eq!(entries.len(), 1, "{listed}");
                let is_here = entries[0]["name"] == "here";
                assert!(is_latest(record, |number| is_here != number.is_multiple_of(2)));
                // The next round begins where the first did.
                if !is_here {
                    let back = json!({"from": "moved/there", "to": "moved/here"});
                    hub.ask(Method::POST, &format!("{SECOND}/move"), &back)
                        .await
                        .expect(200);
                }
            })
        },
    },
    Kind {
        name: "make runs",
        write: |_, number| {
            let body = json!({"input": format!("hello {number}")});
            (Method::POST, "/v1/tenants/fixed/runs".into(), body)
        },
        check: |hub, record, _| {
            Box::pin(async move {
                for (_, run) in &record.done {
                    let id = run["runId"].as_str().unwrap();
                    let run = hub.ended(&format!("/v1/tenants/fixed/runs/{id}")).await;
                    assert_eq!(run["status"], "completed", "{run}");
                }
            })
        },
    },
];

static ROTATED: std::sync::OnceLock<String> = std::sync::OnceLock::new();

/// Whether what is there is the last that was acknowledged, or the one that was under way.
fn is_latest(record: &Record, fits: impl Fn(usize) -> bool) -> bool {
    match record.done.last() {
        None => true,
        Some((number, _)) => fits(*number) || fits(record.last),
    }
}

impl RealHub {
    /// Whether a token is accepted.
    async fn works(&self, token: &str) {
        let said = self.ask_as(token, "/v1/whoami").await;
        assert_eq!(said.status, 200, "a token is gone: {}", said.body);
    }
}

/// Writes one after the other until the Hub is gone.
async fn write(
    hub: Arc<RealHub>,
    kind: &'static Kind,
    round: usize,
    acknowledged: Arc<AtomicUsize>,
) -> Record {
    let mut record = Record {
        kind,
        done: Vec::new(),
        last: 0,
    };
    let mut number = 0;
    loop {
        record.last = number;
        let (method, path, body) = (kind.write)(round, number);
        match hub.try_ask(method, &path, &body).await {
            None => break,
            // The queue is full, or the database has too much to do: nothing was written.
            Some(Said {
                status: 429 | 503, ..
            }) => tokio::time::sleep(Duration::from_millis(20)).await,
            Some(Said { status, body }) => {
                assert!((200..300).contains(&status), "{}: {body}", kind.name);
                record.done.push((number, body));
                acknowledged.fetch_add(1, Ordering::Relaxed);
                number += 1;
            }
        }
    }
    record
}

fn start(home: TestHome) -> RealHub {
    RealHub::with_arguments(
        home,
        &[
            "--set",
            "runtime=mock",
            "--set",
            "limits.rps_per_token=100000",
        ],
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_when_the_hub_is_killed_in_the_middle_of_writes() {
    let home = TestHome::fresh();
    std::fs::create_dir(home.path()).unwrap();
    let mut hub = start(home);
    for id in ["team", "second"] {
        hub.ask(Method::POST, "/v1/groups", &json!({"id": id}))
            .await
            .expect(201);
    }
    let groups = json!([{"id": "team", "access": "write"}, {"id": "second", "access": "write"}]);
    for id in ["fixed", "coming", "gated"] {
        let tenant = json!({"id": id, "groups": groups, "start": false});
        hub.ask(Method::POST, "/v1/tenants", &tenant)
            .await
            .expect(201);
        hub.wait_for(&format!("/v1/tenants/{id}"), |it| it["status"] == "ready")
            .await;
    }
    let policy = json!({"cron": {"maxJobs": 10_000}});
    hub.ask(Method::PUT, "/v1/agent-policy", &policy)
        .await
        .expect(200);
    let token = json!({"name": "rotated", "role": "viewer"});
    let token = hub
        .ask(Method::POST, "/v1/tokens", &token)
        .await
        .expect(201);
    ROTATED
        .set(token["id"].as_str().unwrap().to_owned())
        .unwrap();
    let (_, path, body) = write_to_share(0);
    hub.ask(Method::PUT, &path, &body).await.expect(201);
    for path in ["moved/here", "log"] {
        let file = json!({"path": path, "content": "begun\n"});
        hub.ask(Method::PUT, &format!("{SECOND}/files/content"), &file)
            .await
            .expect(201);
    }
    let acknowledged = Arc::new(AtomicUsize::new(0));
    for round in 0..ROUNDS {
        let shared = Arc::new(hub);
        let mut writers = JoinSet::new();
        for kind in &KINDS {
            let acknowledged = Arc::clone(&acknowledged);
            writers.spawn(write(Arc::clone(&shared), kind, round, acknowledged));
        }
        // Another moment each time, in the middle of things.
        let enough = acknowledged.load(Ordering::Relaxed) + 60 + 13 * round;
        while acknowledged.load(Ordering::Relaxed) < enough {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        shared.kill();
        let records = writers.join_all().await;
        let Ok(killed) = Arc::try_unwrap(shared) else {
            panic!("a writer still has the Hub");
        };
        hub = start(killed.left());
        for record in records {
            (record.kind.check)(&hub, &record, round).await;
        }
        let verified = hub.get("/v1/audit/verify").await;
        assert_eq!(verified["ok"], true, "{verified}");
        // What the killed one left is cleared away beside everything else.
        let share = hub.data().join("shares/team");
        let patience = Instant::now() + Duration::from_secs(60);
        while std::fs::read_dir(&share).unwrap().count() > 1 {
            assert!(Instant::now() < patience, "half a file was left");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
