//! More kinds of writes: those that take something away, and those that change files of homes.

use std::fs;

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    super::real_hub::RealHub,
    kinds::{SECOND, WriteKind, WriteRecord, is_latest},
};

/// What the tenant's context and skills consist of.
pub(super) fn prepare(hub: &RealHub) {
    let home = hub.tenant_home("fixed");
    fs::write(home.join("SOUL.md"), SOUL).unwrap();
    let skill = home.join("skills/content/writer");
    fs::create_dir_all(&skill).unwrap();
    let text = "---\nname: writer\ndescription: Writes.\n---\nWrite.\n";
    fs::write(skill.join("SKILL.md"), text).unwrap();
}

const SOUL: &str = "I am fixed.\n";

const MEMBER: &str = "/v1/groups/left/members/gated";

/// Numbers of which the second of two writes, the one that takes away, was acknowledged.
pub(super) fn taken_away(record: &WriteRecord) -> impl Iterator<Item = usize> {
    let done = record.done.iter().map(|(number, _)| *number);
    done.filter(|number| !number.is_multiple_of(2))
}

/// Numbers of which only the first was ever sent.
pub(super) fn left_alone(record: &WriteRecord) -> impl Iterator<Item = usize> {
    let done = record.done.iter().map(|(number, _)| *number);
    let last = record.last;
    done.filter(move |number| number.is_multiple_of(2) && last <= *number)
}

pub(super) async fn status(hub: &RealHub, path: &str) -> u16 {
    hub.request(Method::GET, path, &Value::Null).await.status
}

pub(super) static MORE_KINDS: [WriteKind; 10] = [
    WriteKind {
        name: "purge tenants",
        write: |round, number| {
            let id = format!("p{round}-{}", number / 2);
            if number.is_multiple_of(2) {
                let body = json!({"id": id, "start": false});
                (Method::POST, "/v1/tenants".into(), body)
            } else {
                let path = format!("/v1/tenants/{id}?purge=true");
                (Method::DELETE, path, Value::Null)
            }
        },
        then: None,
        check: |hub, record, round| {
            Box::pin(async move {
                for number in taken_away(record) {
                    let id = format!("p{round}-{}", number / 2);
                    assert_eq!(status(hub, &format!("/v1/tenants/{id}")).await, 404);
                    assert!(!hub.tenant_home(&id).exists(), "files of {id} are there");
                }
                for number in left_alone(record) {
                    let path = format!("/v1/tenants/p{round}-{}", number / 2);
                    assert_eq!(status(hub, &path).await, 200, "{path} is gone");
                }
                // What was cut off is finished: no tenant is left between here and there.
                let is_done = |deleted: &Value| !deleted.to_string().contains(r#""id":"p"#);
                hub.wait_for("/v1/tenants?status=deleted", is_done).await;
                // Nor is a directory left that belongs to nobody.
                for number in 0..=record.last / 2 {
                    let id = format!("p{round}-{number}");
                    if hub.data().join("tenants").join(&id).exists() {
                        let path = format!("/v1/tenants/{id}");
                        assert_eq!(status(hub, &path).await, 200, "{id} left a directory");
                    }
                }
            })
        },
    },
    WriteKind {
        name: "remove from a share",
        write: |round, number| {
            let path = format!("gone/{round}-{}", number / 2);
            if number.is_multiple_of(2) {
                let body = json!({"path": path, "content": "x"});
                (Method::PUT, format!("{SECOND}/files/content"), body)
            } else {
                let path = format!("{SECOND}/files?path={path}");
                (Method::DELETE, path, Value::Null)
            }
        },
        then: None,
        check: |hub, record, round| {
            Box::pin(async move {
                let stat =
                    |number: usize| format!("{SECOND}/stat?path=gone/{round}-{}", number / 2);
                for number in taken_away(record) {
                    assert_eq!(status(hub, &stat(number)).await, 404);
                }
                for number in left_alone(record) {
                    assert_eq!(status(hub, &stat(number)).await, 200);
                }
            })
        },
    },
    WriteKind {
        name: "delete groups",
        write: |round, number| {
            let id = format!("d{round}-{}", number / 2);
            if number.is_multiple_of(2) {
                (Method::POST, "/v1/groups".into(), json!({"id": id}))
            } else {
                (Method::DELETE, format!("/v1/groups/{id}"), Value::Null)
            }
        },
        then: None,
        check: |hub, record, round| {
            Box::pin(async move {
                let path = |number: usize| format!("/v1/groups/d{round}-{}", number / 2);
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
        name: "remove a member",
        write: |_, number| {
            if number.is_multiple_of(2) {
                (Method::PUT, MEMBER.into(), json!({"access": "read"}))
            } else {
                (Method::DELETE, MEMBER.into(), Value::Null)
            }
        },
        then: None,
        check: |hub, record, _| {
            Box::pin(async move {
                let members = hub.get("/v1/groups/left/members").await;
                let is_member = !members["members"].as_array().unwrap().is_empty();
                let fits = |number: usize| is_member == number.is_multiple_of(2);
                assert!(is_latest(record, fits), "{members}");
                // The tenant and its group agree.
                let shown = hub.get("/v1/tenants/gated/shares").await;
                let mut shares = shown["shares"].as_array().unwrap().iter();
                let is_shared = shares.any(|share| share["groupId"] == "left");
                assert_eq!(is_shared, is_member, "{shown}");
            })
        },
    },
    WriteKind {
        name: "unset variables",
        write: |round, number| {
            let path = format!("/v1/tenants/fixed/env/U{round}_{}", number / 2);
            if number.is_multiple_of(2) {
                let body = json!({"value": "a value that is long enough"});
                (Method::PUT, path, body)
            } else {
                (Method::DELETE, path, Value::Null)
            }
        },
        then: None,
        check: |hub, record, round| {
            Box::pin(async move {
                let env = hub.get("/v1/tenants/fixed/env").await;
                let env = env["env"].as_array().unwrap().clone();
                let is_set = |number: usize| {
                    let name = format!("U{round}_{}", number / 2);
                    env.iter().any(|variable| variable["name"] == name)
                };
                for number in taken_away(record) {
                    assert!(!is_set(number), "U{round}_{} is back", number / 2);
                }
                for number in left_alone(record) {
                    assert!(is_set(number), "U{round}_{} is gone", number / 2);
                }
            })
        },
    },
    WriteKind {
        name: "turn a skill on and off",
        write: |_, number| {
            let body = json!({"enabled": number.is_multiple_of(2)});
            (
                Method::PUT,
                "/v1/tenants/fixed/skills/writer/state".into(),
                body,
            )
        },
        then: None,
        check: |hub, record, _| {
            Box::pin(async move {
                let skills = hub.get("/v1/tenants/fixed/skills").await;
                let is_on = skills["categories"][0]["skills"][0]["enabled"]
                    .as_bool()
                    .unwrap();
                let fits = |number: usize| is_on == number.is_multiple_of(2);
                assert!(is_latest(record, fits), "{skills}");
            })
        },
    },
    WriteKind {
        name: "copy a context",
        write: |round, number| {
            let body = json!({"destination": format!("s{round}-{number}")});
            (Method::POST, "/v1/tenants/fixed/context/sync".into(), body)
        },
        then: None,
        check: |hub, record, round| {
            Box::pin(async move {
                for (number, _) in &record.done {
                    let copy = hub.data().join(format!("sync/s{round}-{number}/SOUL.md"));
                    assert_eq!(fs::read_to_string(copy).unwrap(), SOUL);
                }
                // The one under way is whole or not there, and can be done again.
                let body = json!({"destination": format!("s{round}-{}", record.last)});
                let path = "/v1/tenants/fixed/context/sync";
                hub.request(Method::POST, path, &body).await.expect(200);
                let copy = hub
                    .data()
                    .join(format!("sync/s{round}-{}/SOUL.md", record.last));
                assert_eq!(fs::read_to_string(copy).unwrap(), SOUL);
            })
        },
    },
    WriteKind {
        name: "revoke tokens",
        write: |_, number| {
            let body = json!({"name": format!("r{number}"), "role": "viewer"});
            (Method::POST, "/v1/tokens".into(), body)
        },
        then: Some(|token| {
            let path = format!("/v1/tokens/{}", token["id"].as_str().unwrap());
            (Method::DELETE, path, Value::Null)
        }),
        check: |hub, record, _| {
            Box::pin(async move {
                let made = |number: usize| {
                    let (_, token) = record.done.iter().find(|(done, _)| *done == number)?;
                    token["token"].as_str()
                };
                for number in taken_away(record) {
                    let said = hub
                        .request_with_token(made(number - 1).unwrap(), "/v1/whoami")
                        .await;
                    assert_eq!(said.status, 401, "a revoked token lives: {}", said.body);
                }
                for number in left_alone(record) {
                    let said = hub
                        .request_with_token(made(number).unwrap(), "/v1/whoami")
                        .await;
                    assert_eq!(said.status, 200, "a token is gone: {}", said.body);
                }
            })
        },
    },
    WriteKind {
        name: "give a tenant another key",
        write: |_, _| {
            let path = "/v1/tenants/fixed/runtime-key/rotate".to_owned();
            (Method::POST, path, json!({}))
        },
        then: None,
        check: |hub, record, _| {
            Box::pin(async move {
                let tenant = hub.get("/v1/tenants/fixed").await;
                let last4 = tenant["keys"]["runtimeKey"]["last4"].as_str().unwrap();
                // The last that was acknowledged, or the one that nobody heard of; none before.
                let earlier = record.done.iter().rev().skip(1);
                for (_, given) in earlier {
                    let key = given["runtimeKey"].as_str().unwrap();
                    assert!(!key.ends_with(last4), "an earlier key is back");
                }
            })
        },
    },
    WriteKind {
        name: "stop runs",
        write: |_, _| {
            let body = json!({"input": "hello"});
            (Method::POST, "/v1/tenants/fixed/runs".into(), body)
        },
        then: Some(|run| {
            let id = run["runId"].as_str().unwrap();
            let path = format!("/v1/tenants/fixed/runs/{id}/stop");
            (Method::POST, path, json!({}))
        }),
        check: |hub, record, _| {
            Box::pin(async move {
                for (number, said) in &record.done {
                    let id = said["runId"].as_str().unwrap();
                    let run = hub
                        .wait_for_end(&format!("/v1/tenants/fixed/runs/{id}"))
                        .await;
                    // One that was waiting is over with the word of it; one under way may end before it is stopped.
                    let was_stopped = !number.is_multiple_of(2) && said["status"] == "cancelled";
                    if was_stopped {
                        assert_eq!(run["status"], "cancelled", "{run}");
                    }
                }
            })
        },
    },
];
