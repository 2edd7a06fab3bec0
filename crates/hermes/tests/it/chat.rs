//! `hermes chat` without a terminal, against a scripted model.

mod commands;
mod contributions;
mod faults;
mod flags;
pub(crate) mod interactive;
mod lines;
mod once;
mod secrets;
mod servers;
mod sessions;

use std::process::{Child, Stdio};

use hermes_config::Home;
use hermes_store::{Access, Content, Session, SessionQuery, Store, StoredMessage};
use hermes_testkit::model::{ModelScript, ModelServer};
use serde_json::{Map, Value, json};

use crate::harness::{
    program::{CommandOutput, Hermes, run},
    test_home::wait_until,
};

/// A home whose model is scripted.
struct Chat {
    hermes: Hermes,
    model: ModelServer,
}

impl Chat {
    fn new(script: ModelScript) -> Self {
        Self::with_config(script, json!({}))
    }

    /// A home with more in its configuration than the model.
    fn with_config(script: ModelScript, mut config: Value) -> Self {
        let model = ModelServer::start(script);
        config["model"] = json!({
            "default": "scripted",
            "base_url": model.base_url(),
            "api_key": "key-main",
        });
        let hermes = Hermes::with_config(&config.to_string());
        Self { hermes, model }
    }

    fn with_servers(script: ModelScript, servers: &[(&str, Value)]) -> Self {
        let servers: Map<String, Value> = servers
            .iter()
            .map(|(name, entry)| ((*name).to_owned(), entry.clone()))
            .collect();
        Self::with_config(script, json!({ "mcp_servers": servers }))
    }

    fn run(&self, args: &[&str]) -> CommandOutput {
        self.hermes.run(args)
    }

    /// Runs it with further variables.
    fn run_with(&self, args: &[&str], variables: &[(&str, &str)]) -> CommandOutput {
        let mut command = self.hermes.command(args);
        command.envs(variables.iter().copied());
        run(command, "")
    }

    /// Starts it and waits until the model has been asked so often.
    fn start_until_asked(&self, args: &[&str], requests: usize) -> Child {
        let child = self
            .hermes
            .command(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_until("the model is asked", || {
            self.model.requests().len() >= requests
        });
        child
    }

    /// The messages of a request, without the system prompt.
    fn request_messages(&self, request: usize) -> Vec<Value> {
        let body = &self.model.requests()[request].body;
        let messages = body["messages"].as_array().unwrap().iter();
        messages
            .filter(|message| message["role"] != "system")
            .cloned()
            .collect()
    }

    fn prompt(&self, request: usize) -> String {
        let body = &self.model.requests()[request].body;
        body["messages"][0]["content"].as_str().unwrap().to_owned()
    }

    /// The names of the tools in a request.
    fn tools(&self, request: usize) -> Vec<String> {
        let body = &self.model.requests()[request].body;
        let tools = body["tools"].as_array().into_iter().flatten();
        tools
            .map(|tool| tool["function"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// All sessions, the newest first, with their live messages.
    fn stored(&self) -> Vec<(Session, Vec<StoredMessage>)> {
        let home = Home::at(self.hermes.home.path());
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let store = Store::open(&home, Access::ReadOnly).await.unwrap();
            let sessions = store.list_sessions(&SessionQuery::default()).await.unwrap();
            let mut stored = Vec::new();
            for summary in sessions {
                let messages = store.active_messages(&summary.session.id).await.unwrap();
                stored.push((summary.session, messages));
            }
            stored
        })
    }

    /// Roles and texts of the only session.
    #[track_caller]
    fn stored_texts(&self) -> Vec<(String, String)> {
        let stored = self.stored();
        assert_eq!(stored.len(), 1, "one session");
        stored[0].1.iter().map(role_and_text).collect()
    }
}

fn role_and_text(message: &StoredMessage) -> (String, String) {
    let content = message.body.content.as_ref();
    let text = content.map_or_else(String::new, |content| Content::text(content).into_owned());
    (message.body.role.as_str().to_owned(), text)
}

#[track_caller]
fn assert_messages(said: &[(String, String)], expected: &[(&str, &str)]) {
    let said: Vec<(&str, &str)> = said
        .iter()
        .map(|(role, text)| (role.as_str(), text.as_str()))
        .collect();
    assert_eq!(said, expected);
}

fn finish(child: Child) -> CommandOutput {
    let output = child.wait_with_output().unwrap();
    CommandOutput {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
