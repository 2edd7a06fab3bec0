//! Lists that change while a server is in use.

use std::{path::Path, time::Duration};

use hermes_config::ServerName;
use hermes_testkit::{Behaviour, Era, HttpServer, eventually, recorded};
use serde_json::{Value, json};

use crate::test_host::{TIMEOUT, TestHost, kill, stdio};

const ERAS: [(&str, Era); 2] = [("legacy", Era::Legacy), ("stateless", Era::Stateless)];

/// One local server of each era, ready and listening for changes.
async fn both_eras(behaviour: impl Fn(&str) -> Behaviour) -> TestHost {
    let servers = ERAS.map(|(name, era)| (name, stdio(&behaviour(name).era(era))));
    let host = TestHost::start(&servers).await;
    for (name, _) in ERAS {
        host.ready(name).await;
    }
    host
}

/// Waits until a server knows that changes are wanted. Before that, a stateless one tells nobody.
async fn is_heard(record: &Path) {
    let listens = || !recorded(record, "subscriptions/listen").is_empty();
    assert!(eventually(TIMEOUT, listens).await, "nobody listens");
}

#[tokio::test]
async fn changed_tools_are_published_in_both_eras() {
    let directory = tempfile::tempdir().unwrap();
    let record = |name: &str| directory.path().join(name);
    let host = both_eras(|name| Behaviour::new().record(record(name))).await;
    is_heard(&record("stateless")).await;
    for (name, _) in ERAS {
        let arguments = json!({ "add": [{ "name": "new" }], "remove": ["add"] });
        host.text(name, "change_tools", arguments).await;
        assert!(host.shows(name, "new", true).await, "{name}");
        assert!(!host.tools(name).contains(&"add".to_owned()), "{name}");
        assert_eq!(host.text(name, "new", json!({ "text": "a" })).await, "a");
    }
}

#[tokio::test]
async fn changed_tools_are_published_over_http_too() {
    for (name, era) in ERAS {
        let server = HttpServer::start(Behaviour::new().era(era));
        let host = TestHost::start(&[("remote", json!({ "url": server.url() }))]).await;
        host.ready("remote").await;
        let listens = || {
            server.requests().iter().any(|request| {
                request.method == "GET" || request.rpc_method() == "subscriptions/listen"
            })
        };
        assert!(eventually(TIMEOUT, listens).await, "{name}: nobody listens");
        // The stream opens a moment after its request is in the log.
        let appears = async {
            for number in 0.. {
                let tool = format!("new_{number}");
                let arguments = json!({ "add": [{ "name": tool }] });
                host.text("remote", "change_tools", arguments).await;
                let limit = Duration::from_secs(2);
                let shown = || host.tools("remote").contains(&tool);
                if eventually(limit, shown).await {
                    return;
                }
            }
        };
        assert!(
            tokio::time::timeout(TIMEOUT, appears).await.is_ok(),
            "{name}"
        );
    }
}

#[tokio::test]
async fn changed_resources_and_prompts_show() {
    let directory = tempfile::tempdir().unwrap();
    let record = |name: &str| directory.path().join(name);
    let host = both_eras(|name| Behaviour::new().record(record(name))).await;
    is_heard(&record("stateless")).await;
    for (name, _) in ERAS {
        let arguments = json!({ "add": ["test://new"], "remove": ["test://blob"] });
        host.text(name, "change_resources", arguments).await;
        let arguments = json!({ "add": ["new_prompt"] });
        host.text(name, "change_prompts", arguments).await;
        let link = host
            .until(name, |link| {
                let Some(catalog) = &link.catalog else {
                    return false;
                };
                let mut resources = catalog.resources.iter();
                let mut prompts = catalog.prompts.iter();
                resources.any(|resource| resource.uri == "test://new")
                    && prompts.any(|prompt| prompt.name == "new_prompt")
            })
            .await;
        let resources = &link.catalog.unwrap().resources;
        assert!(resources.iter().all(|known| known.uri != "test://blob"));
    }
}

/// Waits until a server has not been asked for its tools for a while, and says how often it was.
async fn settled_lists(record: &Path) -> usize {
    let mut count = 0;
    loop {
        let before = count;
        let more = || recorded(record, "tools/list").len() > before;
        if !eventually(Duration::from_secs(2), more).await {
            return before;
        }
        count = recorded(record, "tools/list").len();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_changes_causes_two_refreshes_at_most_and_none_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str, what: &str| directory.path().join(format!("{name}.{what}"));
    let host = both_eras(|name| {
        Behaviour::new()
            .record(path(name, "record"))
            .lists(|lists| {
                // The whole burst fits into one refresh, even on a busy machine.
                lists.delay_ms = 1000;
                lists.overlap_file = Some(path(name, "overlap"));
            })
    })
    .await;
    is_heard(&path("stateless", "record")).await;
    for (name, _) in ERAS {
        let record = path(name, "record");
        let before = settled_lists(&record).await;
        host.text(name, "burst", json!({ "n": 50 })).await;
        let caused = settled_lists(&record).await - before;
        assert!((1..=2).contains(&caused), "{name}: {caused} refreshes");
        let counts = std::fs::read_to_string(path(name, "overlap")).unwrap();
        let counts: Value = serde_json::from_str(&counts).unwrap();
        assert_eq!(counts["max_overlap"], 1, "{name}");
    }
}

#[tokio::test]
async fn a_change_during_a_refresh_is_not_missed() {
    let directory = tempfile::tempdir().unwrap();
    let record = |name: &str| directory.path().join(name);
    let host = both_eras(|name| {
        Behaviour::new()
            .record(record(name))
            .lists(|lists| lists.delay_ms = 400)
    })
    .await;
    is_heard(&record("stateless")).await;
    for (name, _) in ERAS {
        host.remembered(name).await;
        let lists = || recorded(&record(name), "tools/list").len();
        let before = lists();
        let arguments = json!({ "add": [{ "name": "first" }] });
        host.text(name, "change_tools", arguments).await;
        assert!(eventually(TIMEOUT, || lists() > before).await);
        let arguments = json!({ "add": [{ "name": "second" }] });
        host.text(name, "change_tools", arguments).await;
        assert!(host.shows(name, "second", true).await, "{name}");
        assert!(host.tools(name).contains(&"first".to_owned()), "{name}");
    }
}

#[tokio::test]
async fn a_change_during_the_first_listing_is_not_missed() {
    let changing = || Behaviour::new().lists(|lists| lists.change_during_list = true);
    let host = both_eras(|_| changing()).await;
    for (name, _) in ERAS {
        assert!(host.shows(name, "appeared", true).await, "{name}");
    }
}

#[tokio::test]
async fn a_subscription_that_ends_is_opened_again_and_everything_listed_anew() {
    let directory = tempfile::tempdir().unwrap();
    let record = directory.path().join("record");
    let behaviour = Behaviour::new()
        .era(Era::Stateless)
        .record(&record)
        .lists(|lists| lists.end_listen_after_ms = Some(100));
    let host = TestHost::start(&[("server", stdio(&behaviour))]).await;
    host.ready("server").await;
    let count = |method: &str| recorded(&record, method).len();
    assert!(eventually(TIMEOUT, || count("subscriptions/listen") >= 3).await);
    // Once to begin with, and once for each subscription.
    let all_listed =
        || count("tools/list") >= 4 && count("resources/list") >= 3 && count("prompts/list") >= 3;
    assert!(eventually(TIMEOUT, all_listed).await);
}

#[tokio::test]
async fn a_server_without_subscriptions_is_used_as_it_is() {
    let behaviour = Behaviour::new()
        .era(Era::Stateless)
        .lists(|lists| lists.refuse_listen = true);
    let host = TestHost::start(&[("server", stdio(&behaviour))]).await;
    let session = host.ready("server").await;
    host.remembered("server").await;
    assert_eq!(
        host.text("server", "echo", json!({ "text": "a" })).await,
        "a"
    );
    assert!(!session.ended.is_cancelled());
}

#[tokio::test]
async fn changes_of_one_server_leave_the_tools_of_others_alone() {
    let host = both_eras(|_| Behaviour::new()).await;
    let others = host.tools("stateless");
    let arguments = json!({ "add": [{ "name": "new" }], "remove": ["echo"] });
    host.text("legacy", "change_tools", arguments).await;
    assert!(host.shows("legacy", "new", true).await);
    assert_eq!(host.tools("stateless"), others);
}

#[tokio::test]
async fn a_watched_resource_tells_of_its_changes_over_a_reconnect_too() {
    let uri = "test://text";
    let directory = tempfile::tempdir().unwrap();
    let record = |name: &str| directory.path().join(name);
    let host = both_eras(|name| Behaviour::new().record(record(name))).await;
    for (name, era) in ERAS {
        let server = ServerName::new(name);
        let mut updates = host.host.resource_updates(&server).unwrap();
        let _watch = host.host.watch_resource(&server, uri).unwrap();
        let subscriptions = || {
            let (method, pointer) = match era {
                Era::Legacy => ("resources/subscribe", "/params/uri"),
                _ => (
                    "subscriptions/listen",
                    "/params/notifications/resourceSubscriptions/0",
                ),
            };
            let all = recorded(&record(name), method);
            all.iter()
                .filter(|message| message.pointer(pointer).is_some_and(|found| found == uri))
                .count()
        };
        for start in 1..=2 {
            assert!(
                eventually(TIMEOUT, || subscriptions() >= start).await,
                "{name}"
            );
            host.text(name, "touch_resource", json!({ "uri": "test://blob" }))
                .await;
            host.text(name, "touch_resource", json!({ "uri": uri }))
                .await;
            let update = tokio::time::timeout(TIMEOUT, updates.recv()).await;
            assert_eq!(update.unwrap().unwrap(), uri, "{name}, start {start}");
            if start == 1 {
                kill(host.pid(name));
                host.until(name, |link| link.restarts == 1).await;
            }
        }
    }
}

#[tokio::test]
async fn a_resource_nobody_watches_any_more_is_silent() {
    let uri = "test://text";
    let directory = tempfile::tempdir().unwrap();
    let record = |name: &str| directory.path().join(name);
    let host = both_eras(|name| Behaviour::new().record(record(name))).await;
    let server = ServerName::new("legacy");
    let mut updates = host.host.resource_updates(&server).unwrap();
    let watch = host.host.watch_resource(&server, uri).unwrap();
    let other = host.host.watch_resource(&server, uri).unwrap();
    let subscribed = || !recorded(&record("legacy"), "resources/subscribe").is_empty();
    assert!(eventually(TIMEOUT, subscribed).await);
    // The first to leave does not end it for the other.
    drop(watch);
    host.text("legacy", "touch_resource", json!({ "uri": uri }))
        .await;
    let update = tokio::time::timeout(TIMEOUT, updates.recv()).await;
    assert_eq!(update.unwrap().unwrap(), uri);
    assert_eq!(recorded(&record("legacy"), "resources/subscribe").len(), 1);
    drop(other);
    let unsubscribed = || !recorded(&record("legacy"), "resources/unsubscribe").is_empty();
    assert!(eventually(TIMEOUT, unsubscribed).await);
    host.text("legacy", "touch_resource", json!({ "uri": uri }))
        .await;
    // Anything it had announced would have come before this answer.
    assert!(updates.try_recv().is_err());
}
