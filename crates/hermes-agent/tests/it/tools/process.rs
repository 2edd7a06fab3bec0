//! Commands in the background.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use hermes_agent::tools::terminal::{
    TerminalSettings, TerminalTool,
    process::{ProcessNotice, ProcessTable, ProcessTool},
};
use hermes_testkit::{eventually, eventually_some};
use serde_json::{Value, json};

use crate::{
    tool_session::ToolSession,
    tools::terminal::{is_alive, wait_until_gone},
};

struct BackgroundFixture {
    session: ToolSession,
    table: Arc<ProcessTable>,
    notices: Arc<Mutex<Vec<ProcessNotice>>>,
}

impl BackgroundFixture {
    fn new() -> Self {
        let notices: Arc<Mutex<Vec<ProcessNotice>>> = Arc::default();
        let sink = notices.clone();
        let table = Arc::new(ProcessTable::with_listener(move |notice| {
            sink.lock().unwrap().push(notice);
        }));
        Self {
            session: ToolSession::new(),
            table,
            notices,
        }
    }

    async fn start(&self, arguments: Value) -> String {
        let path = [("PATH".into(), std::env::var_os("PATH").unwrap())];
        let settings = TerminalSettings::from_document(&Value::Null, path);
        let terminal = TerminalTool::new(settings, self.table.clone());
        let mut arguments = arguments;
        arguments["background"] = true.into();
        let text = self.session.succeed(&terminal, arguments).await;
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["status"], "running");
        value["session_id"].as_str().unwrap().to_owned()
    }

    async fn act(&self, action: &str, id: &str, more: Value) -> Value {
        let mut arguments = json!({"action": action, "session_id": id});
        for (name, value) in more.as_object().into_iter().flatten() {
            arguments[name] = value.clone();
        }
        let text = self
            .session
            .succeed(&ProcessTool::new(self.table.clone()), arguments)
            .await;
        serde_json::from_str(&text).unwrap()
    }

    async fn fail(&self, arguments: Value) -> String {
        self.session
            .fail(&ProcessTool::new(self.table.clone()), arguments)
            .await
    }

    /// Polls until the output contains a text.
    async fn until(&self, id: &str, text: &str) -> String {
        let mut output = String::new();
        let found = eventually_some(Duration::from_secs(30), async || {
            let polled = self.act("poll", id, json!({})).await;
            output.push_str(polled["output"].as_str().unwrap());
            output.contains(text).then_some(())
        });
        assert!(found.await.is_some(), "no {text} in {output}");
        output
    }
}

#[tokio::test]
async fn a_process_is_followed_to_its_end() {
    let background = BackgroundFixture::new();
    let id = background
        .start(json!({"command": "echo one; sleep 0.2; echo two; exit 7"}))
        .await;
    let result = background.act("wait", &id, json!({})).await;
    assert_eq!(
        (&result["status"], &result["exit_code"]),
        (&json!("exited"), &json!(7))
    );
    assert_eq!(result["output"], "one\ntwo\n");
    assert_eq!(background.act("poll", &id, json!({})).await["output"], "");
    let log = background
        .act("log", &id, json!({"offset": 1, "limit": 1}))
        .await;
    assert_eq!(
        (&log["output"], &log["total_lines"]),
        (&json!("two"), &json!(2))
    );
}

#[tokio::test]
async fn waiting_has_an_end() {
    let background = BackgroundFixture::new();
    let id = background.start(json!({"command": "sleep 60"})).await;
    let result = background.act("wait", &id, json!({"timeout": 1})).await;
    assert_eq!(result["status"], "running");
    assert!(result["note"].as_str().unwrap().contains("still running"));
}

#[tokio::test]
async fn input_is_written_and_closed() {
    let background = BackgroundFixture::new();
    let id = background
        .start(json!({"command": "read line; echo got $line; cat; echo end"}))
        .await;
    background
        .act("submit", &id, json!({"data": "hello"}))
        .await;
    background.until(&id, "got hello").await;
    background.act("write", &id, json!({"data": "more"})).await;
    background.act("close", &id, json!({})).await;
    let result = background.act("wait", &id, json!({})).await;
    assert!(
        result["output"].as_str().unwrap().ends_with("moreend\n"),
        "{result}"
    );
    let problem = background
        .fail(json!({"action": "write", "session_id": id, "data": "x"}))
        .await;
    assert!(problem.contains("closed"), "{problem}");
}

#[tokio::test]
async fn a_shell_in_the_background_is_not_a_way_around_approval() {
    let background = BackgroundFixture::new();
    let id = background.start(json!({"command": "bash"})).await;
    let danger = json!({"action": "submit", "session_id": id, "data": "rm -rf /"});
    assert!(background.fail(danger).await.contains("blocked"));
    let risk = json!({"action": "write", "session_id": id, "data": "rm -r x\n"});
    assert!(background.fail(risk).await.contains("not approved"));
    background
        .act("submit", &id, json!({"data": "echo fine"}))
        .await;
    background.until(&id, "fine").await;
}

#[tokio::test]
async fn a_terminal_takes_input_and_its_end() {
    let background = BackgroundFixture::new();
    let id = background
        .start(json!({"command": "test -t 0 && cat && echo end", "pty": true}))
        .await;
    background
        .act("submit", &id, json!({"data": "hello"}))
        .await;
    background.until(&id, "hello").await;
    background.act("close", &id, json!({})).await;
    let result = background.act("wait", &id, json!({"timeout": 30})).await;
    assert_eq!(result["exit_code"], 0, "{result}");
}

#[tokio::test]
async fn kill_ends_the_whole_group() {
    let background = BackgroundFixture::new();
    let id = background
        .start(json!({"command": "sh -c 'echo pid $$.; exec sleep 60' & wait"}))
        .await;
    let output = background.until(&id, ".\n").await;
    let pid = output
        .trim()
        .trim_start_matches("pid ")
        .trim_end_matches('.')
        .to_owned();
    assert!(is_alive(&pid));
    let result = background.act("kill", &id, json!({})).await;
    assert_eq!(result["status"], "exited", "{result}");
    wait_until_gone(&pid).await;
}

#[tokio::test]
async fn everything_ends_with_the_table() {
    let background = BackgroundFixture::new();
    let mut pids = Vec::new();
    for _ in 0..2 {
        let id = background
            .start(json!({"command": "echo pid $$.; sleep 60"}))
            .await;
        let output = background.until(&id, ".\n").await;
        pids.push(
            output
                .trim()
                .trim_start_matches("pid ")
                .trim_end_matches('.')
                .to_owned(),
        );
    }
    let text = background
        .session
        .succeed(
            &ProcessTool::new(background.table.clone()),
            json!({"action": "list"}),
        )
        .await;
    let list: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(list["processes"].as_array().unwrap().len(), 2);
    background.table.close().await;
    for pid in &pids {
        wait_until_gone(pid).await;
    }
    drop(background);

    let background = BackgroundFixture::new();
    let id = background
        .start(json!({"command": "echo pid $$.; sleep 60"}))
        .await;
    let output = background.until(&id, ".\n").await;
    let pid = output
        .trim()
        .trim_start_matches("pid ")
        .trim_end_matches('.')
        .to_owned();
    drop(background);
    wait_until_gone(&pid).await;
}

#[tokio::test]
async fn the_conversation_is_told_what_it_asked_for() {
    let background = BackgroundFixture::new();
    let command = "echo starting; echo Listening on 80; sleep 0.1; exit 2";
    let arguments = json!({"command": command, "notify_on_complete": true, "watch_patterns": ["Listening", "error"]});
    let id = background.start(arguments).await;
    background.act("wait", &id, json!({})).await;
    let told = eventually(Duration::from_secs(30), || {
        background.notices.lock().unwrap().len() >= 2
    });
    assert!(told.await);
    let notices = background.notices.lock().unwrap().clone();
    let matched = ProcessNotice::Matched {
        session_id: id.clone(),
        pattern: "Listening".into(),
        line: "Listening on 80".into(),
    };
    let ended = ProcessNotice::Ended {
        session_id: id,
        command: command.into(),
        exit_code: Some(2),
        output: "starting\nListening on 80\n".into(),
    };
    assert_eq!(notices, [matched, ended]);
}

#[tokio::test]
async fn unknown_processes_and_actions_are_errors() {
    let background = BackgroundFixture::new();
    for arguments in [
        json!({"action": "poll", "session_id": "proc_x"}),
        json!({"action": "poll"}),
        json!({"action": "restart", "session_id": "x"}),
        json!({}),
    ] {
        background.fail(arguments).await;
    }
}
