//! Secrets on their way into errors, warnings and logs, and none of them arriving.

mod generated;

use hermes_mcp::LinkStatus;
use hermes_testkit::{Behaviour, Era, ExitAtStart, SECRETS, TemporaryHome};
use serde_json::{Value, json};

use crate::{
    setup::{ALL_TRANSPORTS, Log, RecordedServer, Setup, stdio, with, with_neighbour},
    transport::http::{
        server,
        server::{SeenRequest, Server},
    },
};

/// A value that no pattern knows: it is secret only because the configuration says so.
const OWN: &str = "plain-words-that-open-doors";
/// Another one, written into the configuration as it is.
const LITERAL: &str = "correct horse battery staple";

fn assert_clean(what: &str, text: &str) {
    for secret in [OWN, LITERAL] {
        assert!(!text.contains(secret), "{what}: {text}");
    }
}

/// A home that knows the secret as a variable.
fn home() -> TemporaryHome {
    let home = TemporaryHome::new();
    home.write_env(&format!("MY_SECRET={OWN}\n"));
    home
}

/// The entry of a local server that is given both secrets.
fn entrusted(behaviour: &Behaviour) -> Value {
    let env = json!({ "ANYTHING": "${MY_SECRET}", "DB_PASSWORD": LITERAL });
    with(stdio(behaviour), json!({ "env": env }))
}

#[tokio::test]
async fn errors_of_tools_and_of_the_protocol_are_redacted_and_successes_are_not() {
    for era in [Era::Legacy, Era::Stateless] {
        let entry = entrusted(&Behaviour::new().era(era));
        let setup = Setup::in_home(home(), with_neighbour(json!({ "s": entry }))).await;
        let text = format!("refused: {OWN}, also {LITERAL}!");
        let redacted = json!({ "error": "refused: [REDACTED], also [REDACTED]!" });

        let told = setup.call("mcp_s_fail", json!({ "text": text })).await;
        assert_eq!(told, redacted, "{era:?}");
        let told = setup
            .call("mcp_s_fail", json!({ "text": text, "code": -32000 }))
            .await;
        assert_eq!(told, redacted, "{era:?}");
        let result = json!({
            "isError": true,
            "content": [{ "type": "text", "text": text }],
            "structuredContent": { "deep": [{ "reason": text }] },
        });
        let told = setup
            .call("mcp_s_content", json!({ "result": result }))
            .await;
        assert_clean("structured error", &told.to_string());
        assert_eq!(
            told["structuredContent"]["deep"][0]["reason"],
            redacted["error"]
        );

        let told = setup.call("mcp_s_echo", json!({ "text": text })).await;
        assert_eq!(told, json!({ "result": text }), "{era:?}");
        setup.assert_neighbour_is_well().await;
    }
}

#[tokio::test]
async fn every_common_kind_of_secret_is_taken_out_of_errors_and_left_in_results() {
    for (wire, era) in ALL_TRANSPORTS {
        let behaviour = Behaviour::new()
            .era(era)
            .calls(|calls| calls.secrets_in_errors = true);
        let home = TemporaryHome::new();
        let peer = RecordedServer::new(wire, behaviour, home.path());
        let setup = Setup::in_home(home, json!({ "s": peer.entry })).await;
        for arguments in [json!({}), json!({ "code": -32000 })] {
            let error = setup.error("mcp_s_fail", arguments).await;
            for secret in [
                "ghp_abcdef",
                "sk-proj-",
                "xoxb-",
                "AKIAABCD",
                "eyJhbGci",
                "abcdef0123456789",
                "hunter2",
                "letmein",
                "t0psecret",
            ] {
                assert!(!error.contains(secret), "{wire:?}, {era:?}: {error}");
            }
            assert!(error.contains("cannot log in"), "{error}");
        }
        let told = setup.call("mcp_s_echo", json!({ "text": SECRETS })).await;
        assert_eq!(told, json!({ "result": SECRETS }));
    }
}

#[tokio::test]
async fn the_last_words_of_a_dead_server_are_redacted_in_status_and_log() {
    let log = Log::default();
    let _capturing = log.capture();
    let behaviour = Behaviour::new().process(|process| {
        process.exit_at_start = Some(ExitAtStart {
            code: 1,
            stderr: format!("no entry with {OWN} or {LITERAL} or token=abcdef123456"),
        });
    });
    let setup = Setup::in_home(
        home(),
        with_neighbour(json!({ "s": entrusted(&behaviour) })),
    )
    .await;
    let error = setup.status("s").error.unwrap();
    assert!(error.contains("no entry with [REDACTED]"), "{error}");
    assert_clean("status", &error);
    assert!(!error.contains("abcdef123456"), "{error}");
    let told = setup
        .call("mcp_neighbour_echo", json!({ "text": OWN }))
        .await;
    assert_eq!(told, json!({ "result": OWN }), "only errors are redacted");
    let lines = log.own_lines();
    assert!(
        lines.iter().any(|line| line.contains("no entry with")),
        "{lines:#?}"
    );
    for line in lines {
        assert_clean("log", &line);
    }
}

#[tokio::test]
async fn log_messages_of_a_server_are_redacted_cut_and_named() {
    let log = Log::default();
    let _capturing = log.capture();
    let entry = entrusted(&Behaviour::new().era(Era::Legacy));
    let setup = Setup::in_home(home(), with_neighbour(json!({ "s": entry }))).await;
    for arguments in [
        json!({ "level": "warning", "message": format!("leaking {OWN}"), "logger": "auth" }),
        json!({ "level": "error", "message": { "password": LITERAL } }),
        json!({ "level": "info", "message": format!("{}{OWN}", "x".repeat(1990)) }),
        json!({ "level": "info", "message": format!("{}end", "y".repeat(5000)) }),
    ] {
        let told = setup.call("mcp_s_log", arguments).await;
        assert_eq!(told, json!({ "result": "logged" }));
    }
    let text = log.text();
    assert!(text.contains("s/auth: leaking [REDACTED]"), "{text}");
    for line in log.own_lines() {
        assert_clean("log", &line);
        assert!(
            !line.contains("plain-word"),
            "not even a part of it: {line}"
        );
    }
    let line = log
        .own_lines()
        .into_iter()
        .find(|line| line.contains("yyy"));
    let shown = line.unwrap().matches('y').count();
    assert_eq!(shown, 2000);
    setup.assert_neighbour_is_well().await;
}

/// How a server answers: by the key it was sent and the request.
pub(super) type FaultyAnswer = fn(&str, &SeenRequest) -> axum::response::Response;

/// Every kind of answer that can repeat a key.
pub(super) const ANSWERS: [(&str, FaultyAnswer); 4] = [
    ("rpc error", rpc_error),
    ("server fault", server_fault),
    ("garbage", garbage),
    ("challenge", challenge),
];

/// A legacy server over HTTP that repeats the key it was sent in whatever it says.
pub(super) async fn parrot(fails: &'static str, how: FaultyAnswer) -> Server {
    Server::answering(move |request| {
        let key = request.header("x-key").unwrap_or("no key").to_owned();
        let what = request.what();
        if what == fails {
            return how(&key, request);
        }
        match what.as_str() {
            "initialize" => {
                let mut result = server::initialized();
                result["capabilities"] = json!({ "tools": {}, "resources": {}, "prompts": {} });
                server::result(request, &result)
            }
            "notifications/initialized" => server::status(202),
            "tools/list" => server::result(
                request,
                &json!({ "tools": [{ "name": "t", "inputSchema": { "type": "object" } }] }),
            ),
            "resources/list" => server::result(request, &json!({ "resources": [] })),
            "resources/templates/list" => {
                server::result(request, &json!({ "resourceTemplates": [] }))
            }
            "prompts/list" => server::result(request, &json!({ "prompts": [] })),
            _ => server::status(405),
        }
    })
    .await
}

fn entrusted_remote(server: &Server) -> Value {
    json!({
        "url": server.url("/mcp"),
        "headers": { "X-Key": "${MY_SECRET}", "Cookie": LITERAL },
        "skip_preflight": true,
    })
}

fn rpc_error(key: &str, request: &SeenRequest) -> axum::response::Response {
    let error = json!({ "code": -32000, "message": format!("bad key {key}") });
    let reply = json!({ "jsonrpc": "2.0", "id": request.json()["id"], "error": error });
    server::typed(200, "application/json", reply.to_string())
}

fn server_fault(key: &str, _: &SeenRequest) -> axum::response::Response {
    server::typed(500, "text/plain", format!("bad key {key}"))
}

fn garbage(key: &str, _: &SeenRequest) -> axum::response::Response {
    server::typed(200, "application/json", format!("bad key {key}"))
}

fn challenge(key: &str, _: &SeenRequest) -> axum::response::Response {
    let mut response = server::status(401);
    let value = format!("Bearer realm=\"bad key {key}\"").parse().unwrap();
    response.headers_mut().insert("WWW-Authenticate", value);
    response
}

#[tokio::test]
async fn a_remote_server_that_repeats_our_headers_leaks_nothing() {
    let methods = [
        "initialize",
        "tools/list",
        "resources/list",
        "prompts/list",
        "tools/call",
        "resources/read",
    ];
    for (kind, how) in ANSWERS {
        for method in methods {
            let log = Log::default();
            let _capturing = log.capture();
            let remote = parrot(method, how).await;
            let entry = entrusted_remote(&remote);
            let setup = Setup::in_home(home(), with_neighbour(json!({ "s": entry }))).await;
            let sent = remote.seen();
            assert_eq!(sent[0].header("x-key"), Some(OWN), "the server has it");
            let context = format!("{kind} to {method}");
            for (tool, arguments) in [
                ("mcp_s_t", json!({})),
                ("mcp_s_list_resources", json!({})),
                ("mcp_s_list_prompts", json!({})),
                ("mcp_s_read_resource", json!({ "uri": "x://y" })),
            ] {
                let told = setup.call(tool, arguments).await;
                assert_clean(&format!("{context}: {tool}"), &told.to_string());
            }
            assert_clean(&context, &json!(setup.status("s")).to_string());
            setup.assert_neighbour_is_well().await;
            for line in log.own_lines() {
                assert_clean(&context, &line);
            }
        }
    }
}

#[tokio::test]
async fn secrets_in_an_address_are_not_shown_when_it_cannot_be_reached() {
    let log = Log::default();
    let _capturing = log.capture();
    let nobody = hermes_testkit::ReservedPort::reserve().unwrap();
    let port = nobody.number();
    let url = format!("http://user:{OWN}@127.0.0.1:{port}/mcp?token=${{MY_SECRET}}");
    let setup = Setup::in_home(
        home(),
        with_neighbour(json!({ "s": { "url": url, "skip_preflight": true } })),
    )
    .await;
    let status = setup.status("s");
    assert_eq!(status.status, LinkStatus::Reconnecting);
    let error = status.error.unwrap();
    assert!(error.contains(&format!("127.0.0.1:{port}")), "{error}");
    assert_clean("status", &error);
    for line in log.own_lines() {
        assert_clean("log", &line);
    }
    setup.assert_neighbour_is_well().await;
}

#[tokio::test]
async fn nothing_secret_is_written_into_the_cache_or_the_records() {
    let entry = entrusted(&Behaviour::new());
    let setup = Setup::in_home(home(), json!({ "s": entry })).await;
    setup.call("mcp_s_echo", json!({ "text": "hi" })).await;
    let manifests = || {
        let directory = std::fs::read_dir(setup.path("cache/mcp"));
        directory.into_iter().flatten().flatten().count()
    };
    crate::setup::eventually("the manifest is written", || manifests() == 1).await;
    for directory in ["cache/mcp", "run", "logs"] {
        let Ok(files) = std::fs::read_dir(setup.path(directory)) else {
            continue;
        };
        for file in files.flatten().filter(|file| file.path().is_file()) {
            // One that was being written has its name by now.
            let Ok(text) = std::fs::read(file.path()) else {
                continue;
            };
            let text = String::from_utf8_lossy(&text);
            assert_clean(&file.path().display().to_string(), &text);
        }
    }
}
