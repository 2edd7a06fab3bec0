//! Sampling, over real transports in both eras.

use std::{sync::Arc, time::Instant};

use hermes_agent::{
    model::{ModelOverrides, ResolveContext, resolve_model},
    policy::{AgentPolicy, PolicyHandle},
    server_requests::{
        AgentRequestHandler,
        elicitation::ElicitationRegistry,
        sampler::{AuxiliaryModels, Sampler},
    },
};
use hermes_config::Redactor;
use hermes_protocol::{Directives, Policy};
use hermes_testkit::{
    Behaviour, Era,
    model::{ModelScript, ModelServer, ScriptedAnswer, ScriptedUsage},
};
use serde_json::{Value, json};

use crate::mcp_host::{ConfiguredHome, Peer, RunningHost, WIRES_AND_ERAS, Wire, reported_answer};

/// A home whose sampling goes to this model.
async fn start(peer: &Peer, keys: Value, model: &Value) -> (RunningHost, Arc<AuxiliaryModels>) {
    start_with_policy(peer, keys, model, PolicyHandle::default()).await
}

async fn start_with_policy(
    peer: &Peer,
    keys: Value,
    model: &Value,
    policy: PolicyHandle,
) -> (RunningHost, Arc<AuxiliaryModels>) {
    let mut config = json!({ "mcp_servers": { "s": peer.entry(&keys) } });
    for (key, value) in model.as_object().unwrap() {
        config[key] = value.clone();
    }
    let place = ConfiguredHome::new(&config);
    let resolve_context = ResolveContext::new(&place.home, &place.settings);
    let models = Arc::new(AuxiliaryModels::new(&resolve_context).with_policy(policy));
    let sampler = Sampler::new(models.clone(), Redactor::default());
    let inquiries =
        AgentRequestHandler::new(ElicitationRegistry::unavailable()).with_sampler(sampler);
    (place.start_host(Arc::new(inquiries)).await, models)
}

fn model_config(model: &ModelServer) -> Value {
    json!({
        "model": { "default": "main", "base_url": model.base_url() },
        "auxiliary": { "mcp": { "model": "small" } },
    })
}

fn text_answer(text: &str) -> ScriptedAnswer {
    ScriptedAnswer::text(text).with(|reply| {
        reply.usage = Some(ScriptedUsage {
            prompt: 5,
            completion: 2,
            ..ScriptedUsage::default()
        });
    })
}

/// The reason of a refusal, as the server or the model that called its tool gets it.
fn refusal(told: &Value, era: Era) -> String {
    let message = if era == Era::Stateless {
        told["error"].clone()
    } else {
        let error = reported_answer(told)["error"].clone();
        assert_eq!(error["code"], -1, "{told}");
        error["message"].clone()
    };
    message
        .as_str()
        .unwrap_or_else(|| panic!("{told}"))
        .to_owned()
}

#[tokio::test]
async fn a_server_is_answered_by_the_model_for_sampling() {
    for (wire, era) in WIRES_AND_ERAS {
        let model = ModelServer::start(ModelScript::new([text_answer("Hello!")]));
        let peer = Peer::new(wire, Behaviour::new().era(era));
        let (setup, _) = start(&peer, json!({}), &model_config(&model)).await;
        // Nobody has asked yet, so nobody has looked for a model.
        assert_eq!(model.paths(), Vec::<String>::new());
        let told = setup.call("sample", json!({ "prompt": "Greet me." })).await;
        let expected = json!({
            "role": "assistant",
            "content": { "type": "text", "text": "Hello!" },
            "model": reported_answer(&told)["model"],
            "stopReason": "endTurn",
        });
        assert_eq!(reported_answer(&told), expected, "{wire:?}, {era:?}");
        let asked = &model.requests()[0].body;
        assert_eq!(asked["model"], "small");
        assert_eq!(asked["messages"][0]["content"], "Greet me.");
        let counts = setup.status("s").sampling.unwrap();
        assert_eq!((counts.requests, counts.errors), (1, 0));
        assert_eq!((counts.tokens_used, counts.tool_use_count), (7, 0));
    }
}

#[tokio::test]
async fn tools_and_their_choice_reach_the_model_and_calls_come_back() {
    for era in [Era::Legacy, Era::Stateless] {
        let model = ModelServer::start(ModelScript::new([ScriptedAnswer::call(
            "look",
            &json!({"at": "sky"}),
        )]));
        let peer = Peer::new(Wire::Stdio, Behaviour::new().era(era));
        let (setup, _) = start(&peer, json!({}), &model_config(&model)).await;
        assert_eq!(
            setup.client_capabilities().await["sampling"],
            json!({ "tools": {} })
        );
        let params = json!({
            "messages": [{ "role": "user", "content": { "type": "text", "text": "Look." } }],
            "maxTokens": 9999,
            "temperature": 0.3,
            "stopSequences": ["END"],
            "tools": [{ "name": "look", "inputSchema": { "type": "object" } }],
            "toolChoice": { "mode": "required" },
        });
        let told = setup.call("sample", json!({ "params": params })).await;
        let said = reported_answer(&told);
        assert_eq!(said["stopReason"], "toolUse", "{era:?}");
        let call =
            json!({ "type": "tool_use", "id": "call_0", "name": "look", "input": { "at": "sky" } });
        assert_eq!(said["content"], call, "{era:?}");
        let asked = &model.requests()[0].body;
        assert_eq!(asked["tool_choice"], "required");
        assert_eq!(asked["tools"][0]["function"]["name"], "look");
        assert_eq!(asked["temperature"].to_string(), "0.3");
        assert_eq!(asked["stop"], json!(["END"]));
        let most = asked["max_tokens"]
            .as_u64()
            .or(asked["max_completion_tokens"].as_u64());
        assert_eq!(most, Some(4096), "{asked}");
        assert_eq!(setup.status("s").sampling.unwrap().tool_use_count, 1);
    }
}

#[tokio::test]
async fn limits_refuse_with_their_reason_in_both_eras() {
    for (wire, era) in WIRES_AND_ERAS {
        let model = ModelServer::start(ModelScript::echo());
        let peer = Peer::new(wire, Behaviour::new().era(era));
        let keys = json!({ "sampling": { "allowed_models": ["small"], "max_rpm": 2 } });
        let (setup, _) = start(&peer, keys, &model_config(&model)).await;
        let hinted = json!({
            "messages": [{ "role": "user", "content": { "type": "text", "text": "Hi" } }],
            "maxTokens": 5,
            "modelPreferences": { "hints": [{ "name": "large" }] },
        });
        let told = setup.call("sample", json!({ "params": hinted })).await;
        let reason = refusal(&told, era);
        assert!(reason.contains("`large` is not allowed"), "{reason}");
        assert_eq!(
            reported_answer(&setup.call("sample", json!({})).await)["stopReason"],
            "endTurn"
        );
        let reason = refusal(&setup.call("sample", json!({})).await, era);
        assert!(reason.contains("rate limit: at most 2"), "{reason}");
        let counts = setup.status("s").sampling.unwrap();
        assert_eq!(
            (counts.requests, counts.errors),
            (1, 2),
            "{wire:?}, {era:?}"
        );
        assert_eq!(model.requests().len(), 1);
    }
}

#[tokio::test]
async fn a_model_that_does_not_answer_in_time_is_given_up() {
    let model = ModelServer::start(ModelScript::new([ScriptedAnswer::Silence]));
    let peer = Peer::new(Wire::Stdio, Behaviour::new().era(Era::Legacy));
    let keys = json!({ "sampling": { "timeout": 1 } });
    let (setup, _) = start(&peer, keys, &model_config(&model)).await;
    let told = setup.call("sample", json!({})).await;
    assert_eq!(
        reported_answer(&told)["error"]["data"],
        json!({ "reason": "timeout" })
    );
    assert_eq!(
        refusal(&told, Era::Legacy),
        "timeout: the model did not answer within 1 s"
    );
}

#[tokio::test]
async fn a_failing_model_is_told_without_its_secrets() {
    let refused = ScriptedAnswer::status(400, "bad key sk-proj-abcdefghijkl1234567890 given");
    let model = ModelServer::start(ModelScript::new([refused]));
    let peer = Peer::new(Wire::Stdio, Behaviour::new().era(Era::Legacy));
    let (setup, _) = start(&peer, json!({}), &model_config(&model)).await;
    let reason = refusal(&setup.call("sample", json!({})).await, Era::Legacy);
    assert!(reason.starts_with("the model call failed: "), "{reason}");
    assert!(
        reason.contains("[REDACTED]") && !reason.contains("sk-proj"),
        "{reason}"
    );
}

#[tokio::test]
async fn without_a_model_nothing_is_declared_and_the_reason_is_clear() {
    for era in [Era::Legacy, Era::Stateless] {
        let behaviour = Behaviour::new()
            .era(era)
            .calls(|calls| calls.ask_undeclared = true);
        let peer = Peer::new(Wire::Stdio, behaviour);
        let none = json!({ "model": { "autodetect": false } });
        let (setup, _) = start(&peer, json!({}), &none).await;
        assert_eq!(setup.client_capabilities().await, json!({}));
        let reason = refusal(&setup.call("sample", json!({})).await, era);
        assert!(
            reason.contains("set `model` or `auxiliary.mcp`"),
            "{reason}"
        );
    }
}

#[tokio::test]
async fn a_key_is_looked_up_when_the_first_server_asks() {
    let model = ModelServer::start(ModelScript::echo().with_key("from-a-command"));
    let peer = Peer::new(Wire::Stdio, Behaviour::new().era(Era::Stateless));
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("looked-up");
    let command = format!("${{cmd:touch {}; printf from-a-command}}", mark.display());
    let config = json!({
        "model": { "default": "main", "base_url": model.base_url(), "api_key": command },
    });
    let (setup, _) = start(&peer, json!({}), &config).await;
    assert!(!mark.exists());
    let told = setup.call("sample", json!({ "prompt": "Hi" })).await;
    assert_eq!(reported_answer(&told)["content"]["text"], "Hi");
    assert!(mark.exists());
}

#[tokio::test]
async fn the_conversations_own_model_serves_where_nothing_is_configured() {
    let model = ModelServer::start(ModelScript::echo());
    let peer = Peer::new(Wire::Stdio, Behaviour::new());
    let none = json!({ "model": { "autodetect": false } });
    let (setup, models) = start(&peer, json!({}), &none).await;
    // A conversation has been given its model by other means, by flags for instance.
    let elsewhere = ConfiguredHome::new(
        &json!({ "model": { "default": "main", "base_url": model.base_url() } }),
    );
    let resolve_context = ResolveContext::new(&elsewhere.home, &elsewhere.settings);
    models.use_main(
        &resolve_model(&resolve_context, &ModelOverrides::default())
            .await
            .unwrap(),
    );
    let mut link = setup.host.link(&crate::mcp_host::server_name()).unwrap();
    // What is offered is decided when a session is opened.
    setup.call("crash", json!({})).await;
    let reopened = link.wait_for(|link| link.restarts == 1 && link.session.is_some());
    tokio::time::timeout(crate::mcp_host::TIMEOUT, reopened)
        .await
        .unwrap()
        .unwrap();
    let told = setup.call("sample", json!({ "prompt": "Hi" })).await;
    assert_eq!(reported_answer(&told)["content"]["text"], "Hi");
    assert_eq!(model.requests()[0].body["model"], "main");
}

#[tokio::test]
async fn sampling_never_holds_up_the_connection() {
    let slow = text_answer("late").with(|reply| reply.delay_ms = 4_000);
    let model = ModelServer::start(ModelScript::new([slow]));
    let peer = Peer::new(Wire::Stdio, Behaviour::new().era(Era::Legacy));
    let keys = json!({ "supports_parallel_tool_calls": true });
    let (setup, _) = start(&peer, keys, &model_config(&model)).await;
    let sampling = setup.call("sample", json!({}));
    let others = async {
        crate::mcp_host::eventually("the model is asked", || !model.requests().is_empty()).await;
        let told = setup.call("echo", json!({ "text": "hi" })).await;
        assert_eq!(told, json!({ "result": "hi" }));
        Instant::now()
    };
    let sampling = async { (sampling.await, Instant::now()) };
    let ((told, sampled), echoed) = tokio::join!(sampling, others);
    assert!(echoed < sampled, "it waited for the model");
    assert_eq!(reported_answer(&told)["content"]["text"], "late");
}

/// What an operator's document leaves an agent.
fn limited(document: &Value) -> AgentPolicy {
    let policy = Policy::resolve(document, &Policy::unrestricted()).unwrap();
    Directives::new(policy).into()
}

#[tokio::test]
async fn an_operators_models_and_hosts_hold_for_servers_too() {
    let model = ModelServer::start(ModelScript::new([text_answer("Hello!")]));
    let peer = Peer::new(Wire::Stdio, Behaviour::new().era(Era::Legacy));
    let policy_handle = PolicyHandle::default();
    let (setup, _) = start_with_policy(
        &peer,
        json!({}),
        &model_config(&model),
        policy_handle.clone(),
    )
    .await;
    for policy in [
        AgentPolicy::closed(),
        limited(&json!({"models": {"allow": ["large"]}})),
        limited(&json!({"egress": {"denyPrivateNetworks": true}})),
    ] {
        policy_handle.set(policy);
        let told = setup.call("sample", json!({ "prompt": "Greet me." })).await;
        refusal(&told, Era::Legacy);
        assert_eq!(model.paths(), Vec::<String>::new());
    }
    policy_handle.set(limited(
        &json!({"models": {"allow": ["small"]}, "egress": {"allowHosts": ["127.0.0.1"]}}),
    ));
    let told = setup.call("sample", json!({ "prompt": "Greet me." })).await;
    assert_eq!(reported_answer(&told)["content"]["text"], "Hello!");
}
