//! Requests that a running host makes for somebody in another process.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use futures::future::FutureExt;
use hermes_config::{Home, ServerName};
use hermes_mcp::{
    ApprovalCheck, HostRequest, Progress, RequestOutcome,
    control::{ControlRequest, ForwardedRequest, RequestCallbacks, request},
    protocol::{ElicitResult, ElicitationAction},
};
use hermes_testkit::{Behaviour, Era, Tool, eventually};
use serde_json::{Value, json};

use super::serve;
use crate::{
    server_request::scripted_handler::ScriptedHandler,
    setup::{ALL_TRANSPORTS, RecordedServer, object},
    test_host::{TIMEOUT, TestHost, stdio, with},
};

fn call(tool: &str, arguments: Value) -> ForwardedRequest {
    let request = HostRequest::CallTool {
        tool: tool.into(),
        arguments: object(arguments),
        is_raw: false,
        approval: ApprovalCheck::Passed,
    };
    ask(request)
}

fn ask(request: HostRequest) -> ForwardedRequest {
    ForwardedRequest {
        server: ServerName::new("server"),
        request,
        timeout: None,
        can_answer: false,
    }
}

/// Somebody who hears of progress and cannot be asked.
fn listener() -> (RequestCallbacks, Arc<Mutex<Vec<Progress>>>) {
    let heard: Arc<Mutex<Vec<Progress>>> = Arc::default();
    let listens = heard.clone();
    let caller = RequestCallbacks {
        on_progress: Arc::new(move |progress| listens.lock().unwrap().push(progress.clone())),
        on_elicit: None,
    };
    (caller, heard)
}

async fn report(host: &TestHost, question: ForwardedRequest) -> RequestOutcome {
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
    let RequestOutcome::Answered { members, .. } = report(&host, ask(HostRequest::ListTools)).await
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
    let RequestOutcome::Answered { members, .. } =
        report(&host, ask(HostRequest::ListResources)).await
    else {
        panic!("no resources");
    };
    let uri = members["resources"][0]["uri"].as_str().unwrap().to_owned();
    let read = report(&host, ask(HostRequest::ReadResource { uri })).await;
    let RequestOutcome::Answered { members, .. } = read else {
        panic!("{read:?}");
    };
    assert!(members["contents"][0]["text"].is_string(), "{members}");
    let prompt = |arguments: Value| HostRequest::GetPrompt {
        prompt: "greet".into(),
        arguments: object(arguments),
    };
    let got = report(&host, ask(prompt(json!({"name": "Ada"})))).await;
    let RequestOutcome::Answered { members, .. } = got else {
        panic!("{got:?}");
    };
    assert!(members["messages"][0].is_object(), "{members}");
    let wrong = report(&host, ask(prompt(json!({"nme": "Ada"})))).await;
    assert!(
        matches!(wrong, RequestOutcome::WrongArguments { .. }),
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
    let peer = RecordedServer::new(
        ALL_TRANSPORTS[0].0,
        Behaviour::new().tools([add]),
        home.path(),
    );
    let host = TestHost::start(&[("server", peer.entry.clone())]).await;
    host.ready("server").await;
    let _serving = serve(&host.host);
    let wrong = report(&host, call("add", json!({"a": 1}))).await;
    let RequestOutcome::WrongArguments {
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
    let RequestOutcome::UnknownName { offers, .. } = unknown else {
        panic!("{unknown:?}");
    };
    assert!(offers.contains(&"add".to_owned()));
    assert!(peer.calls("add").is_empty() && peer.calls("ad").is_empty());
}

#[tokio::test]
async fn who_hangs_up_takes_the_call_back() {
    for (wire, era) in ALL_TRANSPORTS {
        let home = tempfile::tempdir().unwrap();
        let peer = RecordedServer::new(wire, Behaviour::new().era(era), home.path());
        let host = TestHost::start(&[("server", peer.entry.clone())]).await;
        host.ready("server").await;
        let _serving = serve(&host.host);
        let place = Home::at(host.home.path());
        let (caller, _) = listener();
        let long = call("sleep", json!({"ms": 600_000}));
        let waiting = request(&place, long, &caller);
        let begun = eventually(TIMEOUT, || !peer.calls("sleep").is_empty());
        tokio::select! {
            report = waiting => panic!("{report:?}"),
            begun = begun => assert!(begun),
        }
        let taken_back = || host.status("server").calls.cancelled == 1;
        assert!(
            hermes_testkit::eventually(TIMEOUT, taken_back).await,
            "{wire:?} {era:?}"
        );
        if era == Era::Legacy {
            let told = || !peer.cancelled().is_empty();
            assert!(hermes_testkit::eventually(TIMEOUT, told).await, "{wire:?}");
        }
    }
}

#[tokio::test]
async fn progress_and_questions_come_to_whoever_waits() {
    for era in [Era::Legacy, Era::Stateless] {
        let entry = stdio(&Behaviour::new().era(era));
        let host = TestHost::start_with_handler(ScriptedHandler::new(), &[("server", entry)]).await;
        host.ready("server").await;
        let _serving = serve(&host.host);
        let home = Home::at(host.home.path());
        let (mut caller, heard) = listener();
        let steps = call("progress", json!({"steps": 3, "interval_ms": 20}));
        let report = request(&home, steps, &caller).await.unwrap().unwrap();
        assert_eq!(report.text(), "3 steps");
        assert!(!heard.lock().unwrap().is_empty());

        caller.on_elicit = Some(Arc::new(|_| {
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
    assert!(began.elapsed() < TIMEOUT);
}

/// Sends lines over a socket from a command of the agent, and returns the answers.
#[cfg(target_os = "linux")]
async fn asked_by_command(socket: &std::path::Path, questions: &[ControlRequest]) -> Vec<Value> {
    const SCRIPT: &str = "import json,socket,sys\n\
        s=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); f=s.makefile('r')\n\
        for line in sys.argv[2:]:\n    \
            s.sendall(line.encode()+b'\\n'); answer=f.readline(); print(answer,end='')\n    \
            if json.loads(answer)['answer']=='accepted': print(f.readline(),end='')\n";
    let lines = questions
        .iter()
        .map(|question| serde_json::to_string(question).unwrap());
    let mut command = tokio::process::Command::new("setsid");
    command
        .args(["-w", "python3", "-c", SCRIPT])
        .arg(socket)
        .args(lines);
    hermes_mcp::process::descendants::mark_descendants(&mut command);
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn commands_of_an_agent_get_states_and_lists_and_nothing_else() {
    let home = tempfile::tempdir().unwrap();
    let peer = RecordedServer::new(ALL_TRANSPORTS[0].0, Behaviour::new(), home.path());
    let host = TestHost::start(&[("server", peer.entry.clone())]).await;
    host.ready("server").await;
    let _serving = serve(&host.host);
    let socket = super::socket_path(host.home.path());
    let get_prompt = HostRequest::GetPrompt {
        prompt: "greet".into(),
        arguments: object(json!({"name": "Ada"})),
    };
    let read = HostRequest::ReadResource {
        uri: "test://text".into(),
    };
    let refused = [
        ControlRequest::Reload,
        ControlRequest::Wake {
            server: ServerName::new("server"),
        },
        ControlRequest::Request(call("add", json!({"a": 1, "b": 2}))),
        ControlRequest::Request(ask(get_prompt)),
        ControlRequest::Request(ask(read)),
    ];
    for answer in asked_by_command(&socket, &refused).await {
        assert_eq!(answer["answer"], "refused", "{answer}");
    }
    assert!(peer.calls("add").is_empty());
    let listed = [
        ControlRequest::Status,
        ControlRequest::Request(ask(HostRequest::ListTools)),
    ];
    let answers = asked_by_command(&socket, &listed).await;
    assert_eq!(answers[0]["answer"], "status", "{answers:?}");
    assert_eq!(answers[2]["answer"], "done", "{answers:?}");
}

#[tokio::test]
async fn a_tool_that_needs_approval_is_called_once_it_is_approved() {
    let home = tempfile::tempdir().unwrap();
    let peer = RecordedServer::new(ALL_TRANSPORTS[0].0, Behaviour::new(), home.path());
    let entry = with(peer.entry.clone(), "tools", json!({"approve": ["add"]}));
    let host = TestHost::start(&[("server", entry)]).await;
    host.ready("server").await;
    let _serving = serve(&host.host);
    let add = |tool: &str, approval| {
        let mut question = call(tool, json!({"a": 2, "b": 40}));
        if let HostRequest::CallTool {
            approval: check, ..
        } = &mut question.request
        {
            *check = approval;
        }
        question
    };
    for tool in ["add", "mcp_server_add", "mcp__server__add"] {
        let asked = report(&host, add(tool, ApprovalCheck::Pending)).await;
        let RequestOutcome::NeedsApproval { tool, original } = asked else {
            panic!("{asked:?}");
        };
        assert_eq!((&*tool, &*original), ("mcp_server_add", "add"));
    }
    assert!(peer.calls("add").is_empty());
    let called = report(&host, add("add", ApprovalCheck::Passed)).await;
    assert_eq!(called.text(), r#"{"sum":42}"#);
    let other = call("echo", json!({"text": "hi"}));
    assert_eq!(report(&host, other).await.text(), "hi");
}
