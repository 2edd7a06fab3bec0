//! Both eras of the protocol, and finding out which one a server speaks.

#![expect(
    deprecated,
    reason = "sampling is still spoken by servers of every older revision"
)]

use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use hermes_config::Server;
use hermes_mcp::{
    Era, LinkStatus, ServerRequestHandler,
    protocol::{
        CreateMessageRequestParams, ElicitRequestParams, ElicitResult, ElicitationAction, Root,
    },
    server_request::{
        ElicitationError, OfferedCapabilities, RequestOrigin, SamplingError, SamplingReply,
        SamplingSupport,
    },
};
use hermes_testkit::{
    Behaviour, DiscoverBehaviour, Era as Spoken, HttpServer, eventually, recorded,
};
use serde_json::{Value, json};

use crate::test_host::{TIMEOUT, TestHost, kill, pids, stdio, with};

/// What a server heard from the client about itself.
async fn protocol(host: &TestHost, server: &str) -> Value {
    let text = host.text(server, "protocol", json!({})).await;
    serde_json::from_str(&text).unwrap()
}

#[tokio::test]
async fn each_server_is_spoken_to_in_its_own_era_on_both_transports() {
    let eras = [
        ("legacy", Spoken::Legacy, "legacy", "2025-11-25"),
        ("stateless", Spoken::Stateless, "stateless", "2026-07-28"),
        ("both", Spoken::Both, "stateless", "2026-07-28"),
    ];
    let mut remote = Vec::new();
    let mut names = Vec::new();
    let mut entries = Vec::new();
    for (name, era, ..) in &eras {
        let behaviour = Behaviour::new().era(*era);
        let server = HttpServer::start(behaviour.clone());
        entries.push(stdio(&behaviour));
        entries.push(json!({ "url": server.url() }));
        names.extend([format!("{name}_stdio"), format!("{name}_http")]);
        remote.push(server);
    }
    let servers: Vec<(&str, Value)> = names.iter().map(String::as_str).zip(entries).collect();
    let host = TestHost::start(&servers).await;

    for (name, _, era, version) in eras {
        for transport in ["stdio", "http"] {
            let server = format!("{name}_{transport}");
            host.ready(&server).await;
            let status = host.status(&server);
            assert_eq!(status.era.unwrap().as_str(), era, "{server}");
            assert_eq!(
                status.protocol_version.as_deref(),
                Some(version),
                "{server}"
            );
            let heard = protocol(&host, &server).await;
            assert_eq!(heard["era"], era, "{server}");
            assert_eq!(heard["protocolVersion"], version, "{server}");
            assert_eq!(heard["clientInfo"]["name"], "hermes", "{server}");
            assert!(host.tools(&server).len() > 20, "{server}");
        }
    }
}

#[tokio::test]
async fn whatever_an_older_server_does_with_the_probe_it_ends_ready() {
    let probes = [
        ("exits", DiscoverBehaviour::Exit),
        ("says_nothing_useful", DiscoverBehaviour::EmptyObject),
        ("knows_no_such_method", DiscoverBehaviour::MethodNotFound),
        (
            "finds_the_parameters_invalid",
            DiscoverBehaviour::InvalidParams,
        ),
        ("names_its_versions", DiscoverBehaviour::UnsupportedVersion),
    ];
    let directory = tempfile::tempdir().unwrap();
    let record = |name: &str| directory.path().join(name);
    let servers = probes.map(|(name, discover)| {
        let behaviour = Behaviour::new()
            .era(Spoken::Legacy)
            .discover(discover)
            .record(record(name));
        (name, stdio(&behaviour))
    });
    let host = TestHost::start(&servers).await;

    for (name, _) in probes {
        let session = host.ready(name).await;
        assert_eq!(session.era, Era::Legacy, "{name}");
        assert_eq!(host.text(name, "echo", json!({ "text": "a" })).await, "a");
        assert_eq!(
            recorded(&record(name), "server/discover").len(),
            1,
            "{name}"
        );
        for initialize in recorded(&record(name), "initialize") {
            let params = &initialize["params"];
            assert_eq!(params["protocolVersion"], "2025-11-25", "{name}");
        }
    }
}

#[tokio::test]
async fn a_remote_server_that_knows_nothing_of_the_probe_ends_ready_too() {
    for discover in [
        DiscoverBehaviour::EmptyObject,
        DiscoverBehaviour::MethodNotFound,
        DiscoverBehaviour::InvalidParams,
        DiscoverBehaviour::UnsupportedVersion,
    ] {
        let server = HttpServer::start(Behaviour::new().era(Spoken::Legacy).discover(discover));
        let host = TestHost::start(&[("remote", json!({ "url": server.url() }))]).await;
        let session = host.ready("remote").await;
        assert_eq!(session.era, Era::Legacy, "{discover:?}");
        let echoed = host.text("remote", "echo", json!({ "text": "a" })).await;
        assert_eq!(echoed, "a", "{discover:?}");
    }
}

#[tokio::test]
async fn silence_to_the_probe_is_met_with_initialize_on_the_same_process_once() {
    let directory = tempfile::tempdir().unwrap();
    let (record, file) = (
        directory.path().join("record"),
        directory.path().join("pids"),
    );
    let behaviour = Behaviour::new()
        .era(Spoken::Legacy)
        .discover(DiscoverBehaviour::Silent)
        .record(&record)
        .process(|process| process.pid_file = Some(file.clone()));
    // A quarter of the time to connect is the most that `initialize` waits for.
    let entry = with(stdio(&behaviour), "connect_timeout", 8);
    let servers = [("silent", entry)];
    let host = TestHost::start(&servers).await;
    let session = host.ready("silent").await;
    assert_eq!(session.era, Era::Legacy);
    assert_eq!(recorded(&record, "server/discover").len(), 1);
    assert_eq!(pids(&file), [host.pid("silent")]);
    host.remembered("silent").await;
    let home = host.end().await;

    let host = TestHost::start_in(home, &servers).await;
    host.ready("silent").await;
    assert_eq!(
        recorded(&record, "server/discover").len(),
        1,
        "the era is remembered, so there is no second probe"
    );
    assert_eq!(recorded(&record, "initialize").len(), 2);
}

/// Starts a server that takes this long of a time to connect of 12 s, and waits until it is ready.
async fn slow(era: Spoken, discover: DiscoverBehaviour, start: Duration) -> (Era, Duration, usize) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let behaviour = Behaviour::new()
        .era(era)
        .discover(discover)
        .process(|process| {
            process.start_delay_ms = u64::try_from(start.as_millis()).unwrap();
            process.pid_file = Some(file.clone());
        });
    let entry = with(stdio(&behaviour), "connect_timeout", 12);
    let began = Instant::now();
    let host = TestHost::start(&[("slow", entry)]).await;
    let session = host.ready("slow").await;
    let ready = began.elapsed();
    let started = pids(&file);
    assert!(started.contains(&session.pid.unwrap()));
    assert_eq!(host.text("slow", "echo", json!({ "text": "a" })).await, "a");
    assert_eq!(host.status("slow").restarts, 0);
    host.end().await;
    for pid in &started {
        assert!(!hermes_testkit::process_exists(*pid), "{pid} is left");
    }
    (session.era, ready, started.len())
}

#[tokio::test]
async fn a_slow_server_is_started_once_in_either_era() {
    // `initialize` follows the probe after 3 s, a second process would after 6.
    let start = Duration::from_millis(4_500);
    let servers = [
        (Spoken::Legacy, DiscoverBehaviour::Ok),
        (Spoken::Stateless, DiscoverBehaviour::Ok),
        (Spoken::Legacy, DiscoverBehaviour::Silent),
        (Spoken::Legacy, DiscoverBehaviour::EmptyObject),
    ];
    let slow = servers.map(|(era, discover)| Box::pin(slow(era, discover, start)));
    let outcomes = futures::future::join_all(slow).await;
    let eras: Vec<Era> = outcomes.iter().map(|(era, ..)| *era).collect();
    assert_eq!(
        eras,
        [Era::Legacy, Era::Stateless, Era::Legacy, Era::Legacy]
    );
    for (_, ready, starts) in outcomes {
        assert_eq!(starts, 1);
        // Not the end of its time, and not a second start of it.
        assert!(ready < 2 * start, "{ready:?}");
    }
}

#[tokio::test]
async fn beyond_half_of_its_time_a_second_process_is_started_and_one_stays() {
    let start = Duration::from_secs(7);
    let slow = [Spoken::Legacy, Spoken::Stateless]
        .map(|era| Box::pin(slow(era, DiscoverBehaviour::Ok, start)));
    let outcomes = futures::future::join_all(slow).await;
    assert_eq!(outcomes[0].0, Era::Legacy);
    assert_eq!(outcomes[1].0, Era::Stateless);
    for (_, ready, starts) in outcomes {
        assert_eq!(starts, 2);
        assert!(ready < Duration::from_secs(12), "{ready:?}");
    }
}

#[tokio::test]
async fn a_slow_server_that_dies_of_the_probe_is_ready_at_the_second_attempt() {
    let directory = tempfile::tempdir().unwrap();
    let record = directory.path().join("record");
    let behaviour = Behaviour::new()
        .era(Spoken::Legacy)
        .discover(DiscoverBehaviour::Exit)
        .record(&record)
        .process(|process| process.start_delay_ms = 2_500);
    // More than half of its time: after the process that dies, no other one can be ready in the rest.
    let entry = with(stdio(&behaviour), "connect_timeout", 4);
    let host = TestHost::start(&[("slow", entry)]).await;
    host.until("slow", |link| link.attempts_ended == 1).await;
    let session = host.ready("slow").await;
    assert_eq!(session.era, Era::Legacy);
    assert_eq!(
        recorded(&record, "server/discover").len(),
        1,
        "the second attempt begins with `initialize`"
    );
}

#[tokio::test]
async fn a_server_that_the_probe_leaves_mute_is_reached_by_a_second_process() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let behaviour = Behaviour::new()
        .era(Spoken::Legacy)
        .discover(DiscoverBehaviour::Mute)
        .process(|process| process.pid_file = Some(file.clone()));
    let entry = with(stdio(&behaviour), "connect_timeout", 4);
    let host = TestHost::start(&[("mute", entry)]).await;
    host.ready("mute").await;
    let started = pids(&file);
    assert_eq!(started.len(), 2);
    assert_eq!(host.pid("mute"), started[1]);
    let is_gone = || !hermes_testkit::process_exists(started[0]);
    assert!(eventually(TIMEOUT, is_gone).await, "the first is left");
}

#[tokio::test]
async fn a_server_spoilt_by_the_probe_gets_a_fresh_process() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let behaviour = Behaviour::new()
        .era(Spoken::Legacy)
        .discover(DiscoverBehaviour::MethodNotFound)
        .refuse_initialize_after_discover()
        .process(|process| process.pid_file = Some(file.clone()));
    let host = TestHost::start(&[("touchy", stdio(&behaviour))]).await;
    host.ready("touchy").await;
    let started = pids(&file);
    assert_eq!(started.len(), 2);
    assert_eq!(host.pid("touchy"), started[1]);
    assert!(!hermes_testkit::process_exists(started[0]));
}

#[tokio::test]
async fn a_package_runner_is_not_started_beside_itself() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let runner = directory.path().join("npx");
    std::os::unix::fs::symlink(hermes_testkit::binary("testkit-stdio"), &runner).unwrap();
    // Longer than half of its time.
    let slow = Behaviour::new().process(|process| {
        process.start_delay_ms = 3500;
        process.pid_file = Some(file.clone());
    });
    let entry = with(stdio(&slow), "command", runner.to_str().unwrap());
    let host = TestHost::start(&[("slow", with(entry, "connect_timeout", 6))]).await;
    host.ready("slow").await;
    assert_eq!(pids(&file), [host.pid("slow")]);
}

#[tokio::test]
async fn what_a_server_says_of_the_probe_is_not_what_it_dies_of() {
    let noisy = Behaviour::new().era(Spoken::Legacy).process(|process| {
        process.stderr_on_discover = "Failed to validate request: server/discover".into();
    });
    let host = TestHost::start(&[("noisy", stdio(&noisy))]).await;
    let session = host.ready("noisy").await;
    kill(session.pid.unwrap());
    let link = host
        .until("noisy", |link| link.status == LinkStatus::Reconnecting)
        .await;
    let error = link.error.unwrap().text;
    assert!(error.contains("signal 9"), "{error}");
    assert!(!error.contains("validate"), "{error}");
    let log = host.home.path().join("logs/mcp-stderr.log");
    let is_logged = || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("validate"));
    assert!(eventually(TIMEOUT, is_logged).await, "the log has it");
}

#[tokio::test]
async fn an_answer_to_the_probe_saves_the_second_process() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let behaviour = Behaviour::new()
        .era(Spoken::Legacy)
        .process(|process| process.pid_file = Some(file.clone()));
    let host = TestHost::start(&[("plain", stdio(&behaviour))]).await;
    host.ready("plain").await;
    assert_eq!(pids(&file), [host.pid("plain")]);
}

#[tokio::test]
async fn an_era_that_changes_between_two_starts_is_found_again() {
    for (first, then, expected) in [
        (Spoken::Legacy, Spoken::Stateless, Era::Stateless),
        (Spoken::Stateless, Spoken::Legacy, Era::Legacy),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let behaviour =
            Behaviour::new()
                .era(first)
                .change_era(1, then, directory.path().join("starts"));
        let host = TestHost::start(&[("changing", stdio(&behaviour))]).await;
        let session = host.ready("changing").await;
        assert_ne!(session.era, expected);
        host.remembered("changing").await;

        kill(session.pid.unwrap());
        let link = host
            .until("changing", |link| {
                link.session
                    .as_ref()
                    .is_some_and(|new| new.pid != session.pid)
            })
            .await;
        assert_eq!(link.session.unwrap().era, expected);
        assert_eq!(protocol(&host, "changing").await["era"], expected.as_str());
    }
}

#[tokio::test]
async fn older_revisions_are_accepted() {
    let versions = ["2024-11-05", "2025-03-26", "2025-06-18"];
    let servers = versions.map(|version| {
        let mut behaviour = Behaviour::new().era(Spoken::Legacy);
        behaviour.supported_versions = Some(vec![version.to_owned()]);
        (version, stdio(&behaviour))
    });
    let host = TestHost::start(&servers).await;
    for version in versions {
        host.ready(version).await;
        let status = host.status(version);
        assert_eq!(status.protocol_version.as_deref(), Some(version));
    }
}

#[tokio::test]
async fn a_fixed_protocol_is_not_probed_for() {
    let directory = tempfile::tempdir().unwrap();
    let record = |name: &str| directory.path().join(name);
    let servers = ["legacy", "stateless"].map(|protocol| {
        let behaviour = Behaviour::new().record(record(protocol));
        (protocol, with(stdio(&behaviour), "protocol", protocol))
    });
    let host = TestHost::start(&servers).await;
    assert_eq!(host.ready("legacy").await.era, Era::Legacy);
    assert!(recorded(&record("legacy"), "server/discover").is_empty());
    assert_eq!(host.ready("stateless").await.era, Era::Stateless);
    assert!(recorded(&record("stateless"), "initialize").is_empty());
}

#[tokio::test]
async fn nothing_is_offered_to_servers_where_nobody_answers() {
    let eras = [("legacy", Spoken::Legacy), ("stateless", Spoken::Stateless)];
    let servers = eras.map(|(name, era)| (name, stdio(&Behaviour::new().era(era))));
    let host = TestHost::start(&servers).await;
    for (name, _) in eras {
        host.ready(name).await;
        let capabilities = &protocol(&host, name).await["capabilities"];
        for capability in ["sampling", "elicitation", "roots"] {
            assert!(
                capabilities.get(capability).is_none(),
                "{name}: {capabilities}"
            );
        }
    }
}

/// Offers sampling with tools, and never samples.
struct WithSampling;

impl ServerRequestHandler for WithSampling {
    fn offered_capabilities(&self, server: &Server) -> OfferedCapabilities {
        let sampling = server
            .sampling
            .enabled
            .then_some(SamplingSupport::WithTools);
        OfferedCapabilities {
            sampling,
            ..OfferedCapabilities::default()
        }
    }

    fn sample(
        &self,
        _: RequestOrigin,
        _: CreateMessageRequestParams,
    ) -> BoxFuture<'_, Result<SamplingReply, SamplingError>> {
        Box::pin(std::future::ready(Err(SamplingError {
            reason: "never",
            message: "never".into(),
        })))
    }

    fn elicit(
        &self,
        _: RequestOrigin,
        _: ElicitRequestParams,
    ) -> BoxFuture<'_, Result<ElicitResult, ElicitationError>> {
        let answer = ElicitResult::new(ElicitationAction::Decline);
        Box::pin(std::future::ready(Ok(answer)))
    }

    fn roots(&self, _: RequestOrigin) -> BoxFuture<'_, Vec<Root>> {
        Box::pin(std::future::ready(Vec::new()))
    }
}

#[tokio::test]
async fn a_handshake_refused_for_sampling_tools_is_repeated_once_without_them() {
    let directory = tempfile::tempdir().unwrap();
    let record = |name: &str| directory.path().join(name);
    let strict = Behaviour::new()
        .era(Spoken::Legacy)
        .reject_sampling_tools()
        .record(record("strict"));
    let lenient = Behaviour::new()
        .era(Spoken::Legacy)
        .record(record("lenient"));
    let off = with(stdio(&lenient), "sampling", json!({ "enabled": false }));
    let servers = [
        ("strict", stdio(&strict)),
        ("lenient", stdio(&lenient)),
        ("off", off),
    ];
    let host = TestHost::start_with_handler(WithSampling, &servers).await;

    host.ready("strict").await;
    let offered: Vec<Value> = recorded(&record("strict"), "initialize")
        .iter()
        .map(|initialize| initialize["params"]["capabilities"].clone())
        .collect();
    assert_eq!(offered.len(), 2, "{offered:?}");
    assert!(offered[0]["sampling"].get("tools").is_some());
    assert!(offered[1]["sampling"].is_object() && offered[1]["sampling"].get("tools").is_none());

    host.ready("lenient").await;
    let capabilities = &protocol(&host, "lenient").await["capabilities"];
    assert!(capabilities["sampling"].get("tools").is_some());
    host.ready("off").await;
    let capabilities = &protocol(&host, "off").await["capabilities"];
    assert!(capabilities.get("sampling").is_none());
}
