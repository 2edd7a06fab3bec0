//! The way of every request to the answer the script has for it.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    body::to_bytes,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    serve::ListenerExt as _,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{
    anthropic, chat,
    log::{ModelCall, ModelCallLog, ModelCallWatch, last_text, last_user_text},
    script::{ModelScript, ScriptedAnswer, ScriptedReply, ScriptedUsage},
    stream,
};
use crate::{platform::PlatformRequest, script::lock};

/// No test sends more than this.
const BODY_LIMIT: usize = 256 << 20;

/// What all requests share.
pub(super) struct ScriptedModel {
    script: ModelScript,
    /// How often each rule was used, and how many answers.
    progress: Mutex<(Vec<u32>, usize)>,
    log: ModelCallLog,
    paths: Mutex<Vec<String>>,
    transcriptions: Mutex<Vec<PlatformRequest>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ModelProtocol {
    Chat,
    Anthropic,
}

impl ScriptedModel {
    pub(super) fn new(script: ModelScript) -> Self {
        Self {
            progress: Mutex::new((vec![0; script.rules.len()], 0)),
            script,
            log: ModelCallLog::default(),
            paths: Mutex::default(),
            transcriptions: Mutex::default(),
        }
    }

    pub(super) fn calls(&self) -> Vec<ModelCall> {
        self.log.calls()
    }

    pub(super) fn paths(&self) -> Vec<String> {
        lock(&self.paths).clone()
    }

    pub(super) fn transcriptions(&self) -> Vec<PlatformRequest> {
        lock(&self.transcriptions).clone()
    }

    /// Returns how many there were before.
    pub(super) fn record_transcription(&self, request: PlatformRequest) -> usize {
        let mut recorded = lock(&self.transcriptions);
        recorded.push(request);
        recorded.len() - 1
    }

    /// What the script has for the transcript in this place.
    pub(super) fn scripted_transcript(&self, position: usize) -> Option<ScriptedAnswer> {
        self.script.transcripts.get(position).cloned()
    }

    /// Why a request in OpenAI's protocol is refused before the script is asked.
    pub(super) fn refuse_chat_request(&self, headers: &HeaderMap, model: &str) -> Option<Response> {
        self.refusal(ModelProtocol::Chat, headers, model)
    }

    /// The answer to a request: a rule that fits, else the next one in order, else an echo.
    fn next_answer(&self, body: &Value) -> ScriptedAnswer {
        let text = last_text(body);
        let mut progress = lock(&self.progress);
        let (used, position) = &mut *progress;
        for (rule, used) in self.script.rules.iter().zip(used) {
            let is_left = rule.times.is_none_or(|times| *used < times);
            if is_left && text.contains(&rule.contains) {
                *used += 1;
                return rule.answer.clone();
            }
        }
        *position += 1;
        let answer = self.script.answers.get(*position - 1);
        answer.cloned().unwrap_or(ScriptedAnswer::Echo)
    }

    /// Why a request is refused before the script is asked.
    fn refusal(
        &self,
        protocol: ModelProtocol,
        headers: &HeaderMap,
        model: &str,
    ) -> Option<Response> {
        if let Some(key) = &self.script.key {
            let given = match protocol {
                ModelProtocol::Chat => text(headers, "authorization").strip_prefix("Bearer "),
                ModelProtocol::Anthropic => Some(text(headers, "x-api-key")),
            };
            if given != Some(key) {
                let message = format!("Incorrect API key provided: {}", given.unwrap_or_default());
                return Some(refuse(protocol, 401, &message, Some("invalid_api_key")));
            }
        }
        let is_known = self.script.models.iter().any(|known| known == model);
        if self.script.refuse_others && !is_known {
            let message = format!("The model `{model}` does not exist");
            return Some(refuse(protocol, 404, &message, Some("model_not_found")));
        }
        None
    }

    async fn answer(
        &self,
        protocol: ModelProtocol,
        headers: &HeaderMap,
        body: &Value,
        mut watch: ModelCallWatch,
    ) -> Response {
        let model = body["model"].as_str().unwrap_or_default();
        if let Some(refusal) = self.refusal(protocol, headers, model) {
            watch.complete();
            return refusal;
        }
        let reply = match self.next_answer(body) {
            ScriptedAnswer::Reply(reply) => reply,
            ScriptedAnswer::Echo => echo(body),
            ScriptedAnswer::Silence => std::future::pending().await,
            refusal => {
                watch.complete();
                return self.scripted_refusal(protocol, refusal);
            }
        };
        let is_streamed = body["stream"] == true && !self.script.never_streams;
        if !is_streamed {
            tokio::time::sleep(Duration::from_millis(reply.delay_ms)).await;
            watch.complete();
            return Json(match protocol {
                ModelProtocol::Chat => chat::whole(model, &reply),
                ModelProtocol::Anthropic => anthropic::whole(model, &reply),
            })
            .into_response();
        }
        let (pieces, mut end) = match protocol {
            ModelProtocol::Chat => (chat::pieces(model, &reply), chat::end(model, &reply)),
            ModelProtocol::Anthropic => (anthropic::pieces(model, &reply), anthropic::end(&reply)),
        };
        if let Some(error) = &reply.error {
            end = vec![match protocol {
                ModelProtocol::Chat => chat::event(error),
                ModelProtocol::Anthropic => anthropic::event(error),
            }];
        }
        stream::stream_reply(&reply, pieces, end, watch)
    }

    fn scripted_refusal(&self, protocol: ModelProtocol, refusal: ScriptedAnswer) -> Response {
        let ScriptedAnswer::Status {
            status,
            message,
            code,
            retry_after,
        } = refusal
        else {
            let context_length = self.script.context_length.unwrap_or(8192);
            let body = match protocol {
                ModelProtocol::Chat => chat::overflow(context_length),
                ModelProtocol::Anthropic => anthropic::overflow(context_length),
            };
            return (StatusCode::BAD_REQUEST, Json(body)).into_response();
        };
        let mut response = refuse(protocol, status, &message, code.as_deref());
        if let Some(value) = retry_after.and_then(|value| value.parse().ok()) {
            response.headers_mut().insert(header::RETRY_AFTER, value);
        }
        response
    }

    /// Whether a request for a list has the key, in the form of either protocol.
    fn accepts_key(&self, headers: &HeaderMap) -> bool {
        let bearer = text(headers, "authorization").strip_prefix("Bearer ");
        let given = bearer.unwrap_or_else(|| text(headers, "x-api-key"));
        self.script.key.as_deref().is_none_or(|key| key == given)
    }

    fn list(&self, path: &str) -> Response {
        let script = &self.script;
        match path {
            "/v1/models" | "/models" => {
                let models = script.models.iter().map(|id| {
                    json!({ "id": id, "object": "model", "max_model_len": script.context_length })
                });
                Json(json!({ "object": "list", "data": models.collect::<Vec<_>>() }))
                    .into_response()
            }
            // The later in the list, the newer.
            "/api/tags" if script.ollama => {
                let models = script.models.iter().enumerate().map(|(age, name)| {
                    json!({ "name": name, "model": name, "modified_at": format!("2026-01-{:02}T00:00:00Z", age + 1) })
                });
                Json(json!({ "models": models.collect::<Vec<_>>() })).into_response()
            }
            "/api/ps" if script.ollama => {
                let models = script.loaded.iter().map(|name| {
                    json!({ "name": name, "model": name, "context_length": script.context_length })
                });
                Json(json!({ "models": models.collect::<Vec<_>>() })).into_response()
            }
            _ => StatusCode::NOT_FOUND.into_response(),
        }
    }
}

/// Repeats what the user said, and counts four characters as a token.
fn echo(body: &Value) -> ScriptedReply {
    let text = last_user_text(body);
    let tokens = |length: usize| u64::try_from(length.div_ceil(4)).unwrap_or_default();
    ScriptedReply {
        usage: Some(ScriptedUsage {
            prompt: tokens(body["messages"].to_string().len()),
            cached: 0,
            completion: tokens(text.len()),
        }),
        text: vec![text],
        ..ScriptedReply::default()
    }
}

pub(super) fn refuse_chat(status: u16, message: &str, code: Option<&str>) -> Response {
    refuse(ModelProtocol::Chat, status, message, code)
}

fn refuse(protocol: ModelProtocol, status: u16, message: &str, code: Option<&str>) -> Response {
    let body = match protocol {
        ModelProtocol::Chat => chat::error(message, code),
        ModelProtocol::Anthropic => anthropic::error(status, message),
    };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, Json(body)).into_response()
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    let value = headers.get(name);
    value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

async fn handle(State(server): State<Arc<ScriptedModel>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    lock(&server.paths).push(path.clone());
    let protocol = match path.as_str() {
        "/v1/chat/completions" | "/chat/completions" => ModelProtocol::Chat,
        "/v1/messages" => ModelProtocol::Anthropic,
        "/v1/audio/transcriptions" | "/audio/transcriptions" => {
            let Ok(body) = to_bytes(body, BODY_LIMIT).await else {
                return StatusCode::PAYLOAD_TOO_LARGE.into_response();
            };
            return server.transcribe(&parts.headers, &body).await;
        }
        // As Ollama and its like, the lists of their own form need no key.
        "/v1/models" | "/models" if !server.accepts_key(&parts.headers) => {
            return refuse(
                ModelProtocol::Chat,
                401,
                "no such key",
                Some("invalid_api_key"),
            );
        }
        _ => return server.list(&path),
    };
    let Ok(body) = to_bytes(body, BODY_LIMIT).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let headers = parts.headers.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes());
        (name.to_string(), value.into_owned())
    });
    let watch = server.log.add(ModelCall {
        path,
        headers: headers.collect(),
        body: body.clone(),
        abandoned: false,
    });
    server.answer(protocol, &parts.headers, &body, watch).await
}

/// Answers requests.
pub(super) async fn serve(socket: TcpListener, server: Arc<ScriptedModel>) -> std::io::Result<()> {
    let socket = socket.tap_io(|stream| {
        // Without this every event would wait for the one before to be acknowledged.
        let _ = stream.set_nodelay(true);
    });
    let router = Router::new().fallback(handle).with_state(server);
    axum::serve(socket, router).await
}
