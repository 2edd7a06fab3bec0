//! Running commands.

use std::{
    ffi::OsString,
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use hermes_agent::{
    approval::Decision,
    tools::{
        terminal::{TerminalSettings, TerminalTool, process::ProcessTable},
        tool::Tool,
    },
};
use hermes_testkit::{eventually, eventually_some};
use serde_json::{Value, json};

use crate::tool_session::ToolSession;

fn terminal() -> TerminalTool {
    let environment: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), std::env::var_os("PATH").unwrap()),
        ("HOME".into(), "/nowhere".into()),
        ("OPENAI_API_KEY".into(), "very-secret-value".into()),
        ("PLAIN_NAME".into(), "also-secret".into()),
        ("ALLOWED_TOKEN".into(), "let through".into()),
    ];
    let document = json!({"terminal": {"env_passthrough": ["ALLOWED_TOKEN"]}});
    let settings = TerminalSettings::from_document(&document, environment);
    TerminalTool::new(settings, Arc::new(ProcessTable::new()))
}

async fn run(session: &ToolSession, arguments: Value) -> Value {
    let output = session.call(&terminal(), arguments).await;
    serde_json::from_str(&output.text).unwrap()
}

pub(crate) fn is_alive(pid: &str) -> bool {
    let state = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !state.is_empty() && !state.contains(") Z")
}

pub(crate) async fn wait_until_gone(pid: &str) {
    let is_gone = eventually(Duration::from_secs(30), || !is_alive(pid));
    assert!(is_gone.await, "process {pid} is still there");
}

/// Waits for a file with a process id that a command writes.
async fn pid_in(session: &ToolSession, path: &str) -> String {
    let pid = eventually_some(Duration::from_secs(30), async || {
        let pid = fs::read_to_string(session.path(path)).ok()?;
        pid.ends_with('\n').then(|| pid.trim().to_owned())
    });
    pid.await.unwrap_or_else(|| panic!("no {path}"))
}

#[tokio::test]
async fn output_errors_and_exit_code_are_reported_in_order() {
    let session = ToolSession::new();
    let result = run(
        &session,
        json!({"command": "echo one; echo two >&2; echo three; exit 3"}),
    )
    .await;
    assert_eq!(
        result,
        json!({"output": "one\ntwo\nthree\n", "exit_code": 3})
    );
    let output = session.call(&terminal(), json!({"command": "true"})).await;
    assert!(!output.is_error);
    assert!(
        session
            .call(&terminal(), json!({"command": "kill -KILL $$"}))
            .await
            .text
            .contains("137")
    );
}

#[tokio::test]
async fn commands_run_in_the_session_or_where_they_are_told() {
    let session = ToolSession::new();
    session.write("sub/file", "");
    assert_eq!(
        run(&session, json!({"command": "ls"})).await["output"],
        "sub\n"
    );
    assert_eq!(
        run(&session, json!({"command": "ls", "workdir": "sub"})).await["output"],
        "file\n"
    );
    let problem = session
        .fail(&terminal(), json!({"command": "ls", "workdir": "missing"}))
        .await;
    assert!(problem.contains("not a directory"), "{problem}");
}

#[tokio::test]
async fn there_is_nothing_to_read_and_no_secret_in_the_environment() {
    let session = ToolSession::new();
    assert_eq!(
        run(&session, json!({"command": "cat; echo end"})).await["output"],
        "end\n"
    );
    let environment = run(&session, json!({"command": "env"})).await["output"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(!environment.contains("secret"), "{environment}");
    assert!(
        environment.contains("ALLOWED_TOKEN=let through"),
        "{environment}"
    );
}

#[tokio::test]
async fn long_output_keeps_its_head_and_tail() {
    let session = ToolSession::new();
    let result = run(
        &session,
        json!({"command": "echo BEGIN; yes | head -c 3000000; echo END"}),
    )
    .await;
    let output = result["output"].as_str().unwrap();
    assert!(output.starts_with("BEGIN\ny\n") && output.ends_with("y\nEND\n"));
    assert!(output.contains("left out"));
    assert!(
        output.chars().count() < 50_200,
        "{}",
        output.chars().count()
    );
}

#[tokio::test]
async fn a_timeout_ends_the_whole_group() {
    let session = ToolSession::new();
    let began = Instant::now();
    let command =
        "sh -c 'trap \"\" TERM; echo $$ > pid; while :; do sleep 0.1; done' & echo started; wait";
    let result = run(&session, json!({"command": command, "timeout": 3})).await;
    assert_eq!(result["output"], "started\n");
    assert!(
        result["error"].as_str().unwrap().contains("after 3 s"),
        "{result}"
    );
    assert!(
        began.elapsed() < Duration::from_secs(15),
        "{:?}",
        began.elapsed()
    );
    wait_until_gone(&pid_in(&session, "pid").await).await;
}

#[tokio::test]
async fn an_interrupt_ends_it_at_once() {
    let session = ToolSession::new();
    let cancel = session.context.cancel.clone();
    let command = json!({"command": "sh -c 'echo $$ > pid; exec sleep 60' & wait"});
    let tool = terminal();
    let interrupt = async {
        let pid = pid_in(&session, "pid").await;
        cancel.cancel();
        (pid, Instant::now())
    };
    let (output, (pid, cancelled)) = tokio::join!(session.call(&tool, command), interrupt);
    assert!(
        cancelled.elapsed() < Duration::from_secs(15),
        "{:?}",
        cancelled.elapsed()
    );
    assert!(
        output.is_error && output.text.contains("interrupted"),
        "{}",
        output.text
    );
    wait_until_gone(&pid).await;
}

#[tokio::test]
async fn a_dropped_call_leaves_nothing_behind() {
    let session = ToolSession::new();
    let tool = terminal();
    let call = session.call(
        &tool,
        json!({"command": "sh -c 'echo $$ > pid; exec sleep 60' & sleep 60"}),
    );
    let pid = tokio::select! {
        pid = pid_in(&session, "pid") => pid,
        output = call => panic!("{}", output.text),
    };
    wait_until_gone(&pid).await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_daemon_in_a_session_of_its_own_ends_too() {
    let session = ToolSession::new();
    let command = "setsid sh -c 'echo $$ > pid; exec sleep 600' > /dev/null 2>&1 & \
                   while ! test -s pid; do sleep 0.05; done";
    let result = run(&session, json!({"command": command})).await;
    assert_eq!(result["exit_code"], 0, "{result}");
    wait_until_gone(session.read("pid").trim()).await;
}

#[tokio::test]
async fn what_a_command_leaves_running_ends_with_it() {
    let session = ToolSession::new();
    let began = Instant::now();
    let result = run(
        &session,
        json!({"command": "sh -c 'echo $$ > pid; exec sleep 60' & \
                           while ! test -s pid; do sleep 0.05; done; echo done"}),
    )
    .await;
    assert_eq!(result["output"], "done\n");
    assert!(began.elapsed() < Duration::from_secs(30));
    wait_until_gone(&pid_in(&session, "pid").await).await;
}

#[tokio::test]
async fn a_program_that_insists_on_a_terminal_gets_one() {
    let session = ToolSession::new();
    let script = "test -t 0 && test -t 1 && test -t 2 && echo terminal || echo none";
    assert_eq!(
        run(&session, json!({"command": script})).await["output"],
        "none\n"
    );
    assert_eq!(
        run(&session, json!({"command": script, "pty": true})).await["output"],
        "terminal\n"
    );
    let began = Instant::now();
    let result = run(
        &session,
        json!({"command": "sleep 60", "pty": true, "timeout": 1}),
    )
    .await;
    assert!(
        result["error"].is_string() && began.elapsed() < Duration::from_secs(15),
        "{result}"
    );
}

#[tokio::test]
async fn risky_commands_are_asked_about_and_the_worst_never_run() {
    let session = ToolSession::new();
    session.write("build/x", "");
    let denied = session
        .fail(&terminal(), json!({"command": "rm -r build"}))
        .await;
    assert!(denied.contains("not approved"), "{denied}");
    assert!(session.path("build/x").exists());
    session.person.set_decision(Decision::Once);
    run(&session, json!({"command": "rm -r build"})).await;
    assert!(!session.path("build").exists());
    let never = session
        .fail(
            &terminal(),
            json!({"command": "rm -rf --no-preserve-root /"}),
        )
        .await;
    assert!(never.contains("blocked"), "{never}");
    let env = format!("cat {}/home/.env", session.root.display());
    session.person.set_decision(Decision::Denied {
        reason: Some("secrets".into()),
    });
    let denied = session.fail(&terminal(), json!({"command": env})).await;
    assert!(denied.contains("secrets"), "{denied}");
    assert_eq!(session.person.asked().len(), 3);
}

#[tokio::test]
async fn the_definition_names_every_parameter() {
    let definition = terminal().definition();
    let names: Vec<&String> = definition.parameters["properties"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    let expected = [
        "command",
        "background",
        "timeout",
        "workdir",
        "pty",
        "notify_on_complete",
        "watch_patterns",
    ];
    assert_eq!(names, expected);
    assert_eq!(
        definition.parameters["properties"]["timeout"]["default"],
        180
    );
}
