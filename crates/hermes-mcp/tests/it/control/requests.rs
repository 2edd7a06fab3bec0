//! Requests that a running host makes for somebody in another process.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures::future::FutureExt;
use hermes_config::{Home, ServerName};
use hermes_mcp::{
    RequestReport, ServerRequest,
    control::{Caller, RequestQuestion, request},
    protocol::{ElicitResult, ElicitationAction},
    session::Progress,
};
use hermes_testkit::{Behaviour, Era, Tool};
use serde_json::{Value, json};

use super::serve;
use crate::{
    host::{SOON, TestHost, stdio, with},
    inquiries::desk::Desk,
    setup::{EVERY_WAY, Peer, object},
};

fn call(tool: &str, arguments: Value) -> RequestQuestion {
    let request = ServerRequest::CallTool {
        tool: tool.into(),
        arguments: object(arguments),
        is_raw: false,
    };
    ask(request)
}

fn ask(request: ServerRequest) -> RequestQuestion {
    RequestQuestion {
        server: ServerName::new("server"),
        request,
        timeout: None,
        can_answer: false,
    }
}

/// Somebody who hears of progress and cannot be asked.
fn listener() -> (Caller, Arc<Mutex<Vec<Progress>>>) {
    let heard: Arc<Mutex<Vec<Progress>>> = Arc::default();
    let listens = heard.clone();
    let caller = Caller {
        on_progress: Arc::new(move |progress| listens.lock().unwrap().push(progress.clone())),
        person: None,
    };
    (caller, heard)
}

async fn report(host: &TestHost, question: RequestQuestion) -> RequestReport {
    let home = Home::at(host.home.path());
    let report = request(&home, question, &listener().0).await;
    report.expect("a process has the server").unwrap()
}

#[tokio::test]
async fn a_call_is_made_by_the_process_that_has_the_server() {
    let host = TestHost::start(&[("server", stdio(&Behaviour::new()))]).await;
    host.ready("server").await;
    let _serving = serve(&host.host);
    let pid = host.pid("server");
    for tool in ["add", "mcp_server_add", "mcp__server__add"] {
        let report = report(&host, call(tool, json!({"a": "2", "b": 40}))).await;
        assert_eq!(report.text(), r#"{"sum":42}"#, "{tool}: {report:?}");
    }
    let RequestReport::Answered { members, .. } =
        report(&host, ask(ServerRequest::ListTools)).await
    else {
        panic!("no tools");
    };
    assert!(members["tools"].as_array().unwrap().len() > 20);
    assert_eq!(host.pid("server"), pid);
    assert_eq!(host.status("server").calls.total, 3);
}

#[tokio::test]
async fn resources_and_prompts_are_had_the_same_way() {
    let host = TestHost::start(&[("server", stdio(&Behaviour::new()))]).await;
    host.ready("server").await;
    let _serving = serve(&host.host);
    let RequestReport::Answered { members, .. } =
        report(&host, ask(ServerRequest::ListResources)).await
    else {
        panic!("no resources");
    };
    let uri = members["resources"][0]["uri"].as_str().unwrap().to_owned();
    let read = report(&host, ask(ServerRequest::ReadResource { uri })).await;
    let RequestReport::Answered { members, .. } = read else {
        panic!("{read:?}");
    };
    assert!(members["contents"][0]["text"].is_string(), "{members}");
    let prompt = |arguments: Value| ServerRequest::GetPrompt {
        prompt: "greet".into(),
        arguments: object(arguments),
    };
    let got = report(&host, ask(prompt(json!({"name": "Ada"})))).await;
    let RequestReport::Answered { members, .. } = got else {
        panic!("{got:?}");
    };
    assert!(members["messages"][0].is_object(), "{members}");
    let wrong = report(&host, ask(prompt(json!({"nme": "Ada"})))).await;
    assert!(
        matches!(wrong, RequestReport::WrongArguments { .. }),
        "{wrong:?}"
    );
}

#[tokio::test]
async fn wrong_arguments_and_unknown_tools_do_not_reach_the_server() {
    let home = tempfile::tempdir().unwrap();
    let add = Tool::named("add").with(
        "inputSchema",
        json!({
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "required": ["a", "b"],
        }),
    );
    let peer = Peer::new(EVERY_WAY[0].0, Behaviour::new().tools([add]), home.path());
    let host = TestHost::start(&[("server", peer.entry.clone())]).await;
    host.ready("server").await;
    let _serving = serve(&host.host);
    let wrong = report(&host, call("add", json!({"a": 1}))).await;
    let RequestReport::WrongArguments {
        problem,
        definition,
    } = wrong
    else {
        panic!("{wrong:?}");
    };
    assert_eq!(problem, "`b` is missing");
    assert_eq!(definition["name"], "add");
    assert!(definition["inputSchema"]["properties"]["a"].is_object());
    let unknown = report(&host, call("ad", json!({}))).await;
    let RequestReport::UnknownName { offers, .. } = unknown else {
        panic!("{unknown:?}");
    };
    assert!(offers.contains(&"add".to_owned()));
    assert!(peer.calls("add").is_empty() && peer.calls("ad").is_empty());
}

#[tokio::test]
async fn who_hangs_up_takes_the_call_back() {
    for (wire, era) in EVERY_WAY {
        let home = tempfile::tempdir().unwrap();
        let peer = Peer::new(wire, Behaviour::new().era(era), home.path());
        let host = TestHost::start(&[("server", peer.entry.clone())]).await;
        host.ready("server").await;
        let _serving = serve(&host.host);
        let place = Home::at(host.home.path());
        let (caller, _) = listener();
        let long = call("sleep", json!({"ms": 600_000}));
        let waiting = request(&place, long, &caller);
        let begun = async {
            while peer.calls("sleep").is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            report = waiting => panic!("{report:?}"),
            () = begun => {}
        }
        let taken_back = || host.status("server").calls.cancelled == 1;
        assert!(
            hermes_testkit::eventually(SOON, taken_back).await,
            "{wire:?} {era:?}"
        );
        if era == Era::Legacy {
            let told = || !peer.cancelled().is_empty();
            assert!(hermes_testkit::eventually(SOON, told).await, "{wire:?}");
        }
    }
}

#[tokio::test]
async fn progress_and_questions_come_to_whoever_waits() {
    for era in [Era::Legacy, Era::Stateless] {
        let entry = stdio(&Behaviour::new().era(era));
        let host = TestHost::start_asking(Desk::new(), &[("server", entry)]).await;
        host.ready("server").await;
        let _serving = serve(&host.host);
        let home = Home::at(host.home.path());
        let (mut caller, heard) = listener();
        let steps = call("progress", json!({"steps": 3, "interval_ms": 20}));
        let report = request(&home, steps, &caller).await.unwrap().unwrap();
        assert_eq!(report.text(), "3 steps");
        assert!(!heard.lock().unwrap().is_empty());

        caller.person = Some(Arc::new(|_| {
            let mut answer = ElicitResult::new(ElicitationAction::Accept);
            answer.content = Some(json!({"name": "Ada"}));
            std::future::ready(answer).boxed()
        }));
        let asks = call("elicit", json!({}));
        let report = request(&home, asks, &caller).await.unwrap().unwrap();
        assert!(report.text().contains("Ada"), "{era:?}: {report:?}");
    }
}

#[tokio::test]
async fn a_process_without_the_server_leaves_it_to_others() {
    let entry = with(stdio(&Behaviour::new()), "enabled", false);
    let host = TestHost::start(&[("server", entry)]).await;
    let _serving = serve(&host.host);
    let home = Home::at(host.home.path());
    let (caller, _) = listener();
    let asked = request(&home, call("add", json!({})), &caller).await;
    assert!(asked.is_none(), "{asked:?}");
    // One that takes connections and does nothing is given up.
    let stuck = host.home.path().join("run/host-1.sock");
    let _listener = std::os::unix::net::UnixListener::bind(stuck).unwrap();
    let began = Instant::now();
    assert!(
        request(&home, call("add", json!({})), &caller)
            .await
            .is_none()
    );
    assert!(began.elapsed() < SOON);
}
