//! `server-everything`, which others wrote: it samples, asks, wants roots, and has prompts and resources.

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use hermes_agent::{
    mention::{Mentions, complete_mention},
    model::ResolveContext,
    prompt_command::PromptCommand,
    server_requests::{
        AgentRequestHandler,
        elicitation::{
            ElicitationAnswer, ElicitationModes, ElicitationRegistry, ElicitationUi,
            ElicitationUnavailable, FieldKind, FormField, FormRequest, LinkRequest,
        },
        sampler::{AuxiliaryModels, Sampler},
    },
};
use hermes_config::Redactor;
use hermes_mcp::{CallOptions, server_request::ConversationId};
use hermes_testkit::model::{ModelScript, ModelServer, ScriptedAnswer};
use serde_json::{Map, Value, json};

use crate::mcp_host::{ConfiguredHome, RunningHost, eventually};

/// Where an installed program is, or `None` when these tests are to be skipped.
///
/// # Panics
///
/// If the variable is missing: a test that silently does nothing is worse than one that fails.
fn installed(variable: &str, program: &str) -> Option<String> {
    let skips = std::env::var_os("HERMES_TEST_SKIP_REAL").is_some_and(|value| value == "1");
    if skips {
        println!("SKIPPED: HERMES_TEST_SKIP_REAL is set, so nothing is tested against {program}");
        return None;
    }
    let Some(place) = std::env::var_os(variable) else {
        panic!("{variable} is not set: `eval \"$(scripts/equipment env)\"` sets it");
    };
    let mut path = PathBuf::from(place);
    if !program.is_empty() {
        path.push(program);
    }
    assert!(path.exists(), "{} is missing", path.display());
    Some(path.to_str().unwrap().to_owned())
}

/// Fills in every field with its default, or with the first thing that fits.
struct AcceptingUi;

impl AcceptingUi {
    fn value(field: &FormField) -> Value {
        if let Some(default) = &field.default {
            return default.clone();
        }
        match &field.kind {
            FieldKind::Boolean => json!(true),
            FieldKind::Number { .. } | FieldKind::Integer { .. } => json!(30),
            FieldKind::One(choices) => json!(choices[0].value),
            FieldKind::Several { choices, .. } => json!([choices[0].value]),
            FieldKind::Text { .. } => {
                let tries = [
                    "ada@example.com",
                    "https://example.com",
                    "2026-07-28",
                    "2026-07-28T09:30:00Z",
                ];
                let fits = |text: &&str| field.check(&json!(text)).is_ok();
                json!(tries.iter().find(|text| fits(text)).unwrap_or(&"Ada"))
            }
        }
    }
}

impl ElicitationUi for AcceptingUi {
    fn fill_form(
        &self,
        request: FormRequest,
    ) -> BoxFuture<'_, Result<ElicitationAnswer<Map<String, Value>>, ElicitationUnavailable>> {
        let fields = request.form.fields.iter();
        let answers = fields.map(|field| (field.name.clone(), Self::value(field)));
        Box::pin(std::future::ready(Ok(ElicitationAnswer::Accepted(
            answers.collect(),
        ))))
    }

    fn confirm_link(
        &self,
        request: LinkRequest,
    ) -> BoxFuture<'_, Result<ElicitationAnswer<()>, ElicitationUnavailable>> {
        assert_eq!(request.host, "example.com");
        Box::pin(std::future::ready(Ok(ElicitationAnswer::Accepted(()))))
    }
}

/// Waits for a tool that the server offers once it knows its client, and calls it.
async fn call(setup: &RunningHost, tool: &str, arguments: Value) -> String {
    let name = format!("mcp_s_{tool}");
    let is_there = || setup.host.registry().find(&name).is_some();
    eventually(&format!("{tool} is offered"), is_there).await;
    let told = setup.call_in(Some("here"), tool, arguments).await;
    told["result"]
        .as_str()
        .unwrap_or_else(|| panic!("{tool}: {told}"))
        .to_owned()
}

#[tokio::test]
async fn everything_is_answered() {
    let Some(script) = installed("HERMES_TEST_NPM", "mcp-server-everything") else {
        return;
    };
    let node = installed("HERMES_TEST_NODE", "").unwrap();
    let model = ModelServer::start(ModelScript::new([ScriptedAnswer::text("La la la.")]));
    let place = ConfiguredHome::new(&json!({
        "model": { "default": "m", "base_url": model.base_url() },
        "mcp_servers": { "s": { "command": node, "args": [script] } },
    }));
    let models = AuxiliaryModels::new(&ResolveContext::new(&place.home, &place.settings));
    let people = ElicitationRegistry::new(ElicitationModes::ALL);
    let _present = people.register(ConversationId("here".into()), Arc::new(AcceptingUi));
    let inquiries = AgentRequestHandler::new(people)
        .with_sampler(Sampler::new(Arc::new(models), Redactor::default()))
        .with_directory("/srv/project".into());
    let setup = place.start_host(Arc::new(inquiries)).await;

    let said = call(
        &setup,
        "trigger_sampling_request",
        json!({ "prompt": "Sing." }),
    )
    .await;
    assert!(said.contains("La la la."), "{said}");
    assert!(model.requests()[0].body.to_string().contains("Sing."));
    assert_eq!(setup.status("s").sampling.unwrap().requests, 1);

    let said = call(&setup, "trigger_elicitation_request", json!({})).await;
    assert!(said.contains("User provided"), "{said}");
    let address = json!({ "url": "https://example.com/start" });
    let said = call(&setup, "trigger_url_elicitation", address).await;
    assert!(said.contains("completed the URL"), "{said}");
    let counts = setup.status("s").elicitation;
    assert_eq!((counts.accepted, counts.errors), (2, 0));

    let said = call(&setup, "get_roots_list", json!({})).await;
    assert!(said.contains("file:///srv/project"), "{said}");

    prompts(&setup).await;
    mentions(&setup).await;
}

async fn prompts(setup: &RunningHost) {
    let options = CallOptions::default();
    let limit = Duration::from_secs(30);
    let command = PromptCommand::find(&setup.host, "/mcp_s_args_prompt", limit)
        .await
        .unwrap();
    let arguments = command.parse_arguments("Bergen").unwrap();
    assert_eq!(arguments.missing, []);
    let turn = command
        .render(&setup.host, &arguments, &options)
        .await
        .unwrap();
    assert_eq!(turn.text(), "What's weather in Bergen?");

    let command = PromptCommand::find(&setup.host, "/mcp_s_resource_prompt", limit)
        .await
        .unwrap();
    let arguments = command
        .parse_arguments("resourceType=Text resourceId=1")
        .unwrap();
    let turn = command
        .render(&setup.host, &arguments, &options)
        .await
        .unwrap();
    let text = turn.text();
    assert!(
        text.contains("<untrusted_tool_result") && text.contains("Resource 1:"),
        "{text}"
    );
}

async fn mentions(setup: &RunningHost) {
    let mut mentions = Mentions::new(setup.host.clone());
    let message = "Look at @s:demo://resource/dynamic/text/3, please.";
    let attached = mentions
        .attach_resources(message, &CallOptions::default())
        .await;
    assert_eq!(attached.warnings, Vec::<String>::new());
    let text = attached.text.unwrap();
    assert!(text.contains("Resource 3:"), "{text}");
    let completed = complete_mention(&setup.host, "@s:demo://resource/dynamic/");
    assert_eq!(completed.len(), 2, "{completed:?}");
}
