//! `server-everything` over its three transports: every tool, prompts, resources, questions.

use std::{
    process::Stdio,
    sync::{Arc, Mutex},
    time::Duration,
};

use hermes_mcp::{CallOptions, Era, Progress};
use hermes_testkit::{ReservedPort, TemporaryHome};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;

use super::{installed, node};
use crate::{
    server_request::scripted_handler::ScriptedHandler,
    setup::{Setup, eventually},
};

struct Everything {
    setup: Setup,
    desk: Arc<ScriptedHandler>,
    /// The server and its port, where the host does not start it.
    _process: Option<(Child, ReservedPort)>,
}

impl Everything {
    async fn connect(entry: Value, process: Option<(Child, ReservedPort)>) -> Self {
        let desk = Arc::new(ScriptedHandler::new());
        let home = TemporaryHome::new();
        let setup = Setup::with_handler(home, json!({ "e": entry }), desk.clone()).await;
        setup.assert_ready("e");
        let status = setup.status("e");
        assert_eq!(status.era, Some(Era::Legacy));
        assert_eq!(status.protocol_version.as_deref(), Some("2025-11-25"));
        Self {
            setup,
            desk,
            _process: process,
        }
    }

    async fn over_stdio() -> Option<Self> {
        let script = installed("HERMES_TEST_NPM", "mcp-server-everything")?;
        let entry = json!({ "command": node()?, "args": [script] });
        Some(Self::connect(entry, None).await)
    }

    async fn over_http(mode: &str, path: &str, keys: Value) -> Option<Self> {
        let script = installed("HERMES_TEST_NPM", "mcp-server-everything")?;
        let reserved = ReservedPort::reserve().unwrap();
        let port = reserved.number();
        let process = Command::new(node()?)
            .args([script.as_str(), mode])
            .env("PORT", port.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let is_up = || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        eventually("the server listens", is_up).await;
        let url = format!("http://127.0.0.1:{port}/{path}");
        let entry = crate::setup::with(json!({ "url": url }), keys);
        Some(Self::connect(entry, Some((process, reserved))).await)
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.setup.call(&format!("mcp_e_{tool}"), arguments).await
    }

    async fn text(&self, tool: &str, arguments: Value) -> String {
        let told = self.call(tool, arguments).await;
        let text = told["result"].as_str();
        text.unwrap_or_else(|| panic!("{tool}: {told}")).to_owned()
    }

    /// Waits for a tool that the server offers once it knows its client.
    async fn offers(&self, tool: &str) {
        let name = format!("mcp_e_{tool}");
        let is_there = || self.setup.host.registry().find(&name).is_some();
        eventually(&format!("{tool} is offered"), is_there).await;
    }

    async fn exercise(&self) {
        self.plain_tools().await;
        self.content().await;
        self.progress().await;
        self.resources().await;
        self.prompts().await;
        self.questions().await;
    }

    async fn plain_tools(&self) {
        assert_eq!(
            self.text("echo", json!({ "message": "Grüße" })).await,
            "Echo: Grüße"
        );
        assert_eq!(
            self.text("get_sum", json!({ "a": "2", "b": 40 })).await,
            "The sum of 2 and 40 is 42."
        );
        let told = self.call("get_sum", json!({ "a": "two", "b": 1 })).await;
        assert!(told["error"].is_string(), "{told}");
        let environment = self.text("get_env", json!({})).await;
        assert!(environment.contains("PATH"), "{environment}");
        for toggle in ["toggle_simulated_logging", "toggle_subscriber_updates"] {
            for _ in 0..2 {
                let text = self.text(toggle, json!({})).await;
                assert!(
                    text.to_lowercase().contains("simulated"),
                    "{toggle}: {text}"
                );
            }
        }
    }

    async fn content(&self) {
        // The text repeats the structured content, so it is told once.
        let weather = self
            .call("get_structured_content", json!({ "location": "Chicago" }))
            .await;
        assert_eq!(weather.as_object().unwrap().len(), 1, "{weather}");
        let parsed: Value = serde_json::from_str(weather["result"].as_str().unwrap()).unwrap();
        assert_eq!(parsed["temperature"], 36);

        let image = self.text("get_tiny_image", json!({})).await;
        let path = image
            .lines()
            .find_map(|line| line.strip_prefix("MEDIA:"))
            .unwrap_or_else(|| panic!("{image}"));
        assert!(std::fs::read(path).unwrap().starts_with(b"\x89PNG"));
        assert!(image.contains("MCP logo"), "{image}");

        let arguments = json!({ "messageType": "error", "includeImage": "true" });
        let annotated = self.text("get_annotated_message", arguments).await;
        assert!(annotated.contains("Operation failed") && annotated.contains("MEDIA:"));

        let links = self.text("get_resource_links", json!({ "count": 4 })).await;
        assert_eq!(links.matches("[resource link").count(), 4, "{links}");
        assert!(links.contains("mcp_e_read_resource"), "{links}");

        let arguments = json!({ "resourceType": "Text", "resourceId": 7 });
        let embedded = self.text("get_resource_reference", arguments).await;
        assert!(
            embedded.contains("Resource 7: This is a plaintext"),
            "{embedded}"
        );

        let arguments = json!({
            "name": "note.gz", "data": "data:text/plain,hello", "outputType": "resource",
        });
        let zipped = self.text("gzip_file_as_resource", arguments).await;
        assert!(zipped.contains("[resource saved: "), "{zipped}");
    }

    async fn progress(&self) {
        let seen: Arc<Mutex<Vec<Progress>>> = Arc::default();
        let sink = seen.clone();
        let options = CallOptions {
            on_progress: Some(Arc::new(move |progress| {
                sink.lock().unwrap().push(progress.clone());
            })),
            // Shorter than the operation, longer than a step.
            timeout: Some(Duration::from_secs(2)),
            ..CallOptions::default()
        };
        let name = "mcp_e_trigger_long_running_operation";
        let arguments = json!({ "duration": 3, "steps": 6 });
        let told = self.setup.call_with(name, arguments, &options).await;
        let text = told["result"].as_str().unwrap_or_else(|| panic!("{told}"));
        assert!(text.contains("completed"), "{text}");
        let seen = seen.lock().unwrap();
        assert!(seen.len() >= 5, "{seen:?}");
        assert_eq!(seen[0].total, Some(6.0));
    }

    async fn resources(&self) {
        let listed = self.call("list_resources", json!({})).await;
        let resources = listed["resources"].as_array().unwrap();
        assert!(!resources.is_empty(), "{listed}");
        let templates = listed["resourceTemplates"].as_array().unwrap();
        assert_eq!(templates.len(), 2, "{listed}");
        let uri = resources[0]["uri"].as_str().unwrap();
        let text = self.text("read_resource", json!({ "uri": uri })).await;
        assert!(!text.is_empty());
        let uri = "demo://resource/dynamic/text/3";
        let text = self.text("read_resource", json!({ "uri": uri })).await;
        assert!(text.starts_with("Resource 3:"), "{text}");
        let uri = "demo://resource/dynamic/blob/3";
        let note = self.text("read_resource", json!({ "uri": uri })).await;
        assert!(note.starts_with("[resource saved: "), "{note}");
        let told = self
            .call("read_resource", json!({ "uri": "demo://nothing" }))
            .await;
        assert!(told["error"].is_string(), "{told}");
    }

    async fn prompts(&self) {
        let listed = self.call("list_prompts", json!({})).await;
        let names: Vec<&str> = listed["prompts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|prompt| prompt["name"].as_str().unwrap())
            .collect();
        for name in ["simple-prompt", "args-prompt", "resource-prompt"] {
            assert!(names.contains(&name), "{names:?}");
        }
        let arguments = json!({ "name": "args-prompt", "arguments": { "city": "Bergen" } });
        let told = self.call("get_prompt", arguments).await;
        assert_eq!(told["messages"][0]["content"], "What's weather in Bergen?");
        let arguments = json!({
            "name": "resource-prompt", "arguments": { "resourceType": "Text", "resourceId": "1" },
        });
        let told = self.call("get_prompt", arguments).await;
        let embedded = told["messages"][1]["content"].as_str().unwrap();
        assert!(embedded.starts_with("Resource 1:"), "{told}");
    }

    async fn questions(&self) {
        self.offers("trigger_sampling_request").await;
        let text = self
            .text("trigger_sampling_request", json!({ "prompt": "Sing." }))
            .await;
        assert!(
            text.contains("You said: ") && text.contains("Sing."),
            "{text}"
        );
        assert_eq!(self.setup.status("e").sampling.unwrap().requests, 1);

        self.offers("trigger_elicitation_request").await;
        let text = self.text("trigger_elicitation_request", json!({})).await;
        assert!(text.contains("User provided"), "{text}");
        self.offers("trigger_url_elicitation").await;
        let arguments = json!({ "url": "https://example.com/start" });
        let text = self.text("trigger_url_elicitation", arguments).await;
        assert!(text.contains("completed the URL"), "{text}");
        let counts = self.setup.status("e").elicitation;
        assert_eq!((counts.requests, counts.accepted), (2, 2));
        let urls: Vec<Value> = self
            .desk
            .questions()
            .iter()
            .map(|question| question.content["url"].clone())
            .collect();
        assert!(urls.contains(&json!("https://example.com/start")));

        self.offers("simulate_research_query").await;
        // A task of the older kind, which was dropped from the protocol: refused, and said so.
        let told = self
            .call("simulate_research_query", json!({ "topic": "tea" }))
            .await;
        let error = told["error"].as_str().unwrap_or_else(|| panic!("{told}"));
        assert!(error.contains("task"), "{error}");

        self.offers("get_roots_list").await;
        let text = self.text("get_roots_list", json!({})).await;
        assert!(text.contains("file:///srv/project"), "{text}");
    }
}

#[tokio::test]
async fn everything_works_over_stdio() {
    if let Some(everything) = Everything::over_stdio().await {
        everything.exercise().await;
    }
}

#[tokio::test]
async fn everything_works_over_streamable_http() {
    if let Some(everything) = Everything::over_http("streamableHttp", "mcp", json!({})).await {
        everything.exercise().await;
    }
}

#[tokio::test]
async fn everything_works_over_http_and_sse() {
    let keys = json!({ "transport": "sse" });
    if let Some(everything) = Everything::over_http("sse", "sse", keys).await {
        everything.exercise().await;
    }
}

#[tokio::test]
async fn a_long_operation_of_a_real_server_is_interrupted_and_times_out() {
    let Some(everything) = Everything::over_stdio().await else {
        return;
    };
    let name = "mcp_e_trigger_long_running_operation";
    let options = CallOptions {
        timeout: Some(Duration::from_secs(1)),
        ..CallOptions::default()
    };
    let arguments = json!({ "duration": 60, "steps": 1 });
    let told = everything.setup.call_with(name, arguments, &options).await;
    assert!(
        told["error"].as_str().unwrap().contains("allowed: 1 s"),
        "{told}"
    );
    let cancel = CancellationToken::new();
    let options = CallOptions {
        cancel: cancel.clone(),
        on_progress: Some(Arc::new(move |_| cancel.cancel())),
        ..CallOptions::default()
    };
    let arguments = json!({ "duration": 60, "steps": 600 });
    let told = everything.setup.call_with(name, arguments, &options).await;
    assert_eq!(told, json!({ "error": "interrupted by the user" }));
    let text = everything.text("echo", json!({ "message": "next" })).await;
    assert_eq!(text, "Echo: next");
    assert_eq!(everything.setup.status("e").restarts, 0);
}
