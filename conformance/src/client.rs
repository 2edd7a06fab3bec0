//! The client that the suite drives.
//!
//! It knows no scenario. It does what an agent would do with any server, through the product's own host: it connects,
//! calls the tools, reads the resources, fills in the prompts, answers what it is asked, and logs in where that is wanted.

use std::{sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use futures::future::BoxFuture;
use hermes_config::{Home, Server, ServerName, Settings, Variables};
use hermes_mcp::{
    CallOptions, Host, HostOptions, RegisteredTool, Registry, ServerRequestHandler, ToolOrigin,
    oauth::Login,
    process::GuardProgram,
    protocol::{
        CreateMessageRequestParams, ElicitRequestParams, ElicitResult, ElicitationAction, Root,
    },
    server_request::{
        ElicitationError, OfferedCapabilities, RequestOrigin, SamplingError, SamplingReply,
        SamplingSupport,
    },
};
use serde_json::{Map, Value, json};

mod login;

const SERVER: &str = "suite";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) async fn run(url: &str) -> anyhow::Result<()> {
    let context: Value = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(text) => serde_json::from_str(&text).context("the context is not JSON")?,
        Err(_) => Value::Null,
    };
    let directory = tempfile::tempdir()?;
    let home = Home::at(directory.path());
    let settings = settings(url, &context)?;
    let login = login::login_for(&home, &settings, SERVER)?;
    let mut options = HostOptions::new(
        home,
        GuardProgram {
            path: std::env::current_exe()?,
            args: Vec::new(),
        },
    );
    options.request_handler = Arc::new(AcceptingHandler);
    let host = Host::start(options, &settings).await;
    let outcome = exercise(&host, &context, &login).await;
    host.shutdown().await;
    outcome
}

fn settings(url: &str, context: &Value) -> anyhow::Result<Settings> {
    let entry = json!({
        "url": url, "timeout": 20, "auth": "oauth", "oauth": login::oauth_settings(context),
    });
    let text = json!({"mcp_servers": {SERVER: entry}});
    Ok(Settings::parse(
        &text.to_string(),
        Variables::from_pairs::<String, String>([]),
    )?)
}

/// Uses everything the server offers.
async fn exercise(host: &Host, context: &Value, login: &Login) -> anyhow::Result<()> {
    let server = ServerName::new(SERVER);
    host.wait_until_settled(CONNECT_TIMEOUT).await;
    login::connect_with_login(host, &server, login, CONNECT_TIMEOUT).await?;
    let link = host.link(&server).context("no connection")?;
    if link.borrow().session.is_none() {
        let status = host
            .status()
            .into_iter()
            .next()
            .context("the server is gone")?;
        bail!(
            "not connected: {:?} {}",
            status.status,
            status.error.unwrap_or_default()
        );
    }
    let options = CallOptions::default();
    let registry = host.registry();
    for (tool, arguments) in planned_calls(&registry, context) {
        let outcome = login::call_with_login(host, &tool, arguments, &options, login).await?;
        log_line(&format!("{}: {}", tool.name, outcome.to_json()));
    }
    // What is listed after a new session is the new session's.
    let link = link.borrow().clone();
    let capabilities = link
        .catalog
        .map(|catalog| catalog.capabilities.clone())
        .unwrap_or_default();
    if capabilities.resources.is_some() {
        let (resources, _) = host.resources(&server).await?;
        for resource in resources {
            let read = host.read_resource(&server, &resource.uri, &options).await;
            log_line(&format!("{}: {}", resource.uri, read.is_ok()));
        }
    }
    if capabilities.prompts.is_some() {
        for prompt in host.prompts(&server).await? {
            let arguments = prompt.arguments.unwrap_or_default();
            let filled = arguments
                .into_iter()
                .map(|argument| (argument.name, json!("test")))
                .collect();
            let messages = host
                .get_prompt(&server, &prompt.name, filled, &options)
                .await;
            log_line(&format!("{}: {}", prompt.name, messages.is_ok()));
        }
    }
    Ok(())
}

/// The calls that the context asks for, else one call of every tool with arguments made from its schema.
fn planned_calls(
    registry: &Registry,
    context: &Value,
) -> Vec<(Arc<RegisteredTool>, Map<String, Value>)> {
    let server = ServerName::new(SERVER);
    if let Some(wanted) = context.get("toolCalls").and_then(Value::as_array) {
        let call = |call: &Value| {
            let tool = registry.find_original(&server, call["name"].as_str()?)?;
            let arguments = call["arguments"].as_object().cloned().unwrap_or_default();
            Some((tool.clone(), arguments))
        };
        return wanted.iter().filter_map(call).collect();
    }
    let natives = registry.tools().filter_map(|tool| match &tool.origin {
        ToolOrigin::Native(native) => Some((tool.clone(), native.input_schema())),
        ToolOrigin::Utility(_) => None,
    });
    let natives: Vec<_> = natives.collect();
    // A server that asks for a schema gets one of its own back, as it was received.
    let listed = natives
        .first()
        .map_or(Value::Null, |(_, schema)| (*schema).clone());
    let call = |(tool, schema): &(Arc<RegisteredTool>, &Value)| {
        let mut arguments = arguments_from_schema(schema);
        for (name, value) in &mut arguments {
            if name.to_ascii_lowercase().ends_with("schema") && value.is_object() {
                *value = listed.clone();
            }
        }
        (tool.clone(), arguments)
    };
    natives.iter().map(call).collect()
}

fn arguments_from_schema(schema: &Value) -> Map<String, Value> {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let value = |name: &str| match schema["properties"][name]["type"].as_str() {
        Some("number" | "integer") => json!(3),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        _ => json!("test"),
    };
    required
        .iter()
        .filter_map(Value::as_str)
        .map(|name| (name.to_owned(), value(name)))
        .collect()
}

/// The suite keeps what is written here.
#[expect(clippy::print_stderr, reason = "a program, not a library")]
fn log_line(text: &str) {
    eprintln!("{text}");
}

/// Answers every question: forms with their defaults, samples with a fixed sentence, no roots but the root.
struct AcceptingHandler;

impl ServerRequestHandler for AcceptingHandler {
    fn offered_capabilities(&self, _server: &Server) -> OfferedCapabilities {
        OfferedCapabilities {
            sampling: Some(SamplingSupport::WithTools),
            forms: true,
            urls: true,
            roots: true,
        }
    }

    fn sample(
        &self,
        _asker: RequestOrigin,
        _request: CreateMessageRequestParams,
    ) -> BoxFuture<'_, Result<SamplingReply, SamplingError>> {
        let message = json!({
            "role": "assistant",
            "content": {"type": "text", "text": "A fixed answer."},
            "model": "fixed",
            "stopReason": "endTurn",
        });
        let answer = serde_json::from_value(message)
            .map(|message| SamplingReply { message, tokens: 3 })
            .map_err(|error| SamplingError {
                reason: "failed",
                message: error.to_string(),
            });
        Box::pin(std::future::ready(answer))
    }

    fn elicit(
        &self,
        _asker: RequestOrigin,
        request: ElicitRequestParams,
    ) -> BoxFuture<'_, Result<ElicitResult, ElicitationError>> {
        let mut answer = ElicitResult::new(ElicitationAction::Accept);
        if let ElicitRequestParams::FormElicitationParams {
            requested_schema, ..
        } = request
        {
            let schema = serde_json::to_value(requested_schema).unwrap_or_default();
            answer.content = Some(Value::Object(form_defaults(&schema)));
        }
        Box::pin(std::future::ready(Ok(answer)))
    }

    fn roots(&self, _asker: RequestOrigin) -> BoxFuture<'_, Vec<Root>> {
        Box::pin(std::future::ready(vec![Root::new("file:///")]))
    }
}

/// The default of every field that has one, and something fitting for those that are required.
fn form_defaults(schema: &Value) -> Map<String, Value> {
    let mut content = arguments_from_schema(schema);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(default) = field.get("default") {
            content.insert(name.clone(), default.clone());
        } else if let Some(choice) = field["enum"].get(0).filter(|_| content.contains_key(name)) {
            content.insert(name.clone(), choice.clone());
        }
    }
    content
}
