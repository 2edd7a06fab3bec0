//! The kinds of writes, and what must be true of each after the Hub was killed in the middle of them.

use std::sync::OnceLock;

use futures::future::LocalBoxFuture;
use reqwest::Method;
use serde_json::{Value, json};

use super::super::real_hub::RealHub;

/// What a kind of write did before the Hub died.
pub(super) struct WriteRecord {
    pub(super) kind: &'static WriteKind,
    /// Those that were acknowledged, with what came back.
    pub(super) done: Vec<(usize, Value)>,
    /// The one under way when the Hub died, or the last one where none was.
    pub(super) last: usize,
}

/// A request that writes.
pub(super) type Write = (Method, String, Value);

/// A kind of write, numbered through, and what must be true afterwards.
pub(super) struct WriteKind {
    pub(super) name: &'static str,
    pub(super) write: fn(usize, usize) -> Write,
    /// Every second write, where it needs to know what came back of the one before.
    pub(super) then: Option<fn(&Value) -> Write>,
    pub(super) check: for<'a> fn(&'a RealHub, &'a WriteRecord, usize) -> LocalBoxFuture<'a, ()>,
}

/// Every line of a file is the same, so that half a file shows.
pub(super) fn content(number: usize) -> String {
    format!("{number}\n").repeat(2000)
}

pub(super) fn write_to_share(number: usize) -> (Method, String, Value) {
    let path = "/v1/tenants/fixed/shares/team/files/content".to_owned();
    let body = json!({"path": "file", "content": content(number)});
    (Method::PUT, path, body)
}

/// A share for writes that would get in the way of others.
pub(super) const SECOND: &str = "/v1/tenants/fixed/shares/second";

pub(super) static KINDS: [WriteKind; 14] = [
    WriteKind {
        name: "create tenants",
        write: |round, number| {
            let body = json!({"id": format!("t{round}-{number}"), "start": false});
            (Method::POST, "/v1/tenants".into(), body)
        },
        then: None,
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
    WriteKind {
        name: "change a tenant",
        write: |_, number| {
            let body = json!({"displayName": format!("Name {number}")});
            (Method::PATCH, "/v1/tenants/fixed".into(), body)
        },
        then: None,
        check: |hub, record, _| {
            Box::pin(async move {
                let tenant = hub.get("/v1/tenants/fixed").await;
                let shown = tenant["displayName"].as_str().unwrap().to_owned();
                let fits = |number: usize| shown == format!("Name {number}");
                assert!(is_latest(record, fits), "{shown}");
            })
        },
    },
    WriteKind {
        name: "delete and restore a tenant",
        write: |_, number| {
            if number.is_multiple_of(2) {
                (Method::DELETE, "/v1/tenants/coming".into(), Value::Null)
            } else {
                (Method::POST, "/v1/tenants/coming/restore".into(), json!({}))
            }
        },
        then: None,
        check: |hub, record, _| {
            Box::pin(async move {
                let said = hub
                    .request(Method::GET, "/v1/tenants/coming", &Value::Null)
                    .await;
                let is_there = said.status == 200;
                let fits = |number: usize| is_there != number.is_multiple_of(2);
                assert!(is_latest(record, fits), "{said:?}");
                // The next round begins with one that is there.
                if !is_there {
                    hub.request(Method::POST, "/v1/tenants/coming/restore", &json!({}))
                        .await
                        .expect(200);
                }
            })
        },
    },
    WriteKind {
        name: "make tokens",
        write: |_, number| {
            let body = json!({"name": format!("n{number}"), "role": "viewer"});
            (Method::POST, "/v1/tokens".into(), body)
        },
        then: None,
        check: |hub, record, _| {
            Box::pin(async move {
                for (_, token) in &record.done {
                    hub.check_token(token["token"].as_str().unwrap()).await;
                }
            })
        },
    },
    WriteKind {
        name: "rotate a token",
        // The old secret lives on, or a rotation that nobody heard of would lock everybody out.
        write: |_, _| {
            let path = format!("/v1/tokens/{}/rotate?grace=600", ROTATED.get().unwrap());
            (Method::POST, path, json!({}))
        },
        then: None,
        check: |hub, record, _| {
            Box::pin(async move {
                if let Some((_, token)) = record.done.last() {
                    hub.check_token(token["token"].as_str().unwrap()).await;
                }
            })
        },
    },
    WriteKind {
        name: "write to a share",
        write: |_, number| write_to_share(number),
        then: None,
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
    WriteKind {
        name: "append to a file",
        write: |round, number| {
            let line = format!("{round}-{number}\n");
            let body = json!({"path": "log", "content": line, "mode": "append"});
            (Method::PUT, format!("{SECOND}/files/content"), body)
        },
        then: None,
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
    WriteKind {
        name: "make directories",
        write: |round, number| {
            let body = json!({"path": format!("dirs/{round}/{number}/inside")});
            (Method::PUT, format!("{SECOND}/dirs"), body)
        },
        then: None,
        check: |hub, record, round| {
            Box::pin(async move {
                for (number, _) in &record.done {
                    let path = format!("{SECOND}/stat?path=dirs/{round}/{number}/inside");
                    assert_eq!(hub.get(&path).await["type"], "dir");
                }
            })
        },
    },
    WriteKind {
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
        then: None,
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
    WriteKind {
        name: "change a group",
        write: |_, number| {
            let body = json!({"displayName": format!("Name {number}")});
            (Method::PATCH, "/v1/groups/second".into(), body)
        },
        then: None,
        check: |hub, record, _| {
            Box::pin(async move {
                let group = hub.get("/v1/groups/second").await;
                let fits = |number: usize| group["displayName"] == format!("Name {number}");
                assert!(is_latest(record, fits), "{group}");
            })
        },
    },
    WriteKind {
        name: "set variables",
        write: |round, number| {
            let path = format!("/v1/tenants/fixed/env/V{round}_{number}");
            (
                Method::PUT,
                path,
                json!({"value": format!("a value that is long enough {number:04}")}),
            )
        },
        then: None,
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
    WriteKind {
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
        then: None,
        check: |hub, record, _| {
            Box::pin(async move {
                let access = hub.get("/v1/tenants/gated/access").await;
                let fits = |number: usize| {
                    access["reason"]
                        .as_str()
                        .is_some_and(|reason| reason.parse() == Ok(number))
                };
                assert!(is_latest(record, fits), "{access}");
            })
        },
    },
    WriteKind {
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
        then: None,
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
                    hub.request(Method::POST, &format!("{SECOND}/move"), &back)
                        .await
                        .expect(200);
                }
            })
        },
    },
    WriteKind {
        name: "make runs",
        write: |_, number| {
            let body = json!({"input": format!("hello {number}")});
            (Method::POST, "/v1/tenants/fixed/runs".into(), body)
        },
        then: None,
        check: |hub, record, _| {
            Box::pin(async move {
                for (_, run) in &record.done {
                    let id = run["runId"].as_str().unwrap();
                    let run = hub
                        .wait_for_end(&format!("/v1/tenants/fixed/runs/{id}"))
                        .await;
                    assert_eq!(run["status"], "completed", "{run}");
                }
            })
        },
    },
];

/// The id of a token that is rotated.
pub(super) static ROTATED: OnceLock<String> = OnceLock::new();

/// Whether what is there is the last that was acknowledged, or the one that was under way.
pub(super) fn is_latest(record: &WriteRecord, fits: impl Fn(usize) -> bool) -> bool {
    match record.done.last() {
        None => true,
        Some((number, _)) => fits(*number) || fits(record.last),
    }
}

impl RealHub {
    /// Whether a token is accepted.
    async fn check_token(&self, token: &str) {
        let said = self.request_with_token(token, "/v1/whoami").await;
        assert_eq!(said.status, 200, "a token is gone: {}", said.body);
    }
}
