//! What the built-in tools do.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    SECRETS, ServerScript, content, lock,
    request::{RequestOutcome, ScriptRequest},
};
use crate::{
    behaviour::{Grandchild, Tool},
    grandchild,
    script::sandbox_probe,
    wire::{self, RpcError},
};

/// Log levels, least severe first.
const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

/// Whether a built-in tool may take longer than a moment.
pub(super) fn is_slow(tool: &str) -> bool {
    matches!(
        tool,
        "sleep"
            | "progress"
            | "sample"
            | "elicit"
            | "elicit_url"
            | "roots"
            | "spawn_grandchild"
            | "reach"
    )
}

impl ServerScript {
    pub(super) fn call_tool(&self, request: &ScriptRequest) -> Result<RequestOutcome, RpcError> {
        let calls = self.count_call();
        let name = request.tool_name();
        if self.tool(name).is_none() {
            return Err(RpcError::new(
                wire::INVALID_PARAMS,
                format!("unknown tool {name}"),
            ));
        }
        if self.behaviour.calls.never_answer.iter().any(|n| n == name) {
            return Ok(RequestOutcome::Silence);
        }
        let result = match request.acting_tool().as_str() {
            "add" => add(request),
            "sleep" => return Ok(sleep(request)),
            "progress" => return Ok(self.progress(request)),
            "fail" => return self.fail(request),
            "crash" => {
                self.exit(3);
                return Ok(RequestOutcome::Silence);
            }
            "environment" => environment(),
            "cwd" => content::text(
                std::env::current_dir()
                    .unwrap_or_default()
                    .display()
                    .to_string(),
            ),
            "image" => content::image(),
            "audio" => content::audio(),
            "blob" => content::blob(),
            "embedded" => content::embedded_text(),
            "link" => content::link(),
            "unknown_content" => content::unknown(),
            "content" => request.argument("result").clone(),
            "big" => content::text("x".repeat(integer_or(request.argument("bytes"), 1024))),
            tool @ ("sample" | "elicit" | "elicit_url" | "roots") => {
                return self.request_client(tool, request);
            }
            "change_tools" => self.change_tools(request),
            "change_resources" => self.change_names(request, "resources"),
            "change_prompts" => self.change_names(request, "prompts"),
            "touch_resource" => {
                let uri = request.argument("uri").as_str().unwrap_or_default();
                if let Some(text) = request.argument("text").as_str() {
                    lock(&self.offer)
                        .texts
                        .insert(uri.to_owned(), text.to_owned());
                }
                self.announce_resource(uri);
                content::text("announced")
            }
            "burst" => {
                for _ in 0..integer_or(request.argument("n"), 50) {
                    self.announce("tools");
                }
                content::text("announced")
            }
            "log" => log(request),
            "counter" => content::text(calls.to_string()),
            "spawn_grandchild" => spawn_grandchild(request),
            "reach" => sandbox_probe::probe_sandbox(request),
            "protocol" => content::document(&self.client_description(request)),
            _ => echo(request),
        };
        Ok(RequestOutcome::Result(result))
    }

    fn progress(&self, request: &ScriptRequest) -> RequestOutcome {
        let steps = integer_or(request.argument("steps"), 3);
        let pause = Duration::from_millis(request.argument("interval_ms").as_u64().unwrap_or(10));
        let token = request.meta("progressToken");
        let mut step = 0;
        while step < steps || self.behaviour.calls.progress_forever {
            if request.wait(pause) {
                return request.cancelled_outcome();
            }
            step += 1;
            let Some(token) = token else { continue };
            let mut params = json!({
                "progressToken": token,
                "progress": step,
                "message": format!("step {step}"),
            });
            if !self.behaviour.calls.progress_forever {
                params["total"] = json!(steps);
            }
            if !request.notify("notifications/progress", &params) {
                return RequestOutcome::Done;
            }
        }
        RequestOutcome::Result(content::text(format!("{step} steps")))
    }

    fn fail(&self, request: &ScriptRequest) -> Result<RequestOutcome, RpcError> {
        let text = if self.behaviour.calls.secrets_in_errors {
            SECRETS
        } else {
            request.argument("text").as_str().unwrap_or("it failed")
        };
        match request.argument("code").as_i64() {
            Some(code) => Err(RpcError::new(code, text)),
            None => Ok(RequestOutcome::Result(content::failure(text))),
        }
    }

    fn change_tools(&self, request: &ScriptRequest) -> Value {
        let mut offer = lock(&self.offer);
        offer.tools.retain(|tool| {
            !list_items(request.argument("remove")).any(|removed| removed == tool.name())
        });
        offer
            .tools
            .extend(list_items(request.argument("add")).map(|added| Tool::defined(added.clone())));
        drop(offer);
        self.announce("tools");
        content::text("changed")
    }

    fn change_names(&self, request: &ScriptRequest, list: &str) -> Value {
        let mut offer = lock(&self.offer);
        let names = if list == "prompts" {
            &mut offer.prompts
        } else {
            &mut offer.resources
        };
        names.retain(|name| !list_items(request.argument("remove")).any(|removed| removed == name));
        names.extend(
            list_items(request.argument("add"))
                .filter_map(Value::as_str)
                .map(str::to_owned),
        );
        drop(offer);
        self.announce(list);
        content::text("changed")
    }
}

fn echo(request: &ScriptRequest) -> Value {
    match request.argument("text").as_str() {
        Some(text) => content::text(text),
        None => content::document(&request.params["arguments"]),
    }
}

fn add(request: &ScriptRequest) -> Value {
    let number = |name| request.argument(name).as_i64().unwrap_or(0);
    let sum = json!({ "sum": number("a") + number("b") });
    let mut result = content::document(&sum);
    result["structuredContent"] = sum;
    result
}

fn sleep(request: &ScriptRequest) -> RequestOutcome {
    let ms = request.argument("ms").as_u64().unwrap_or(1000);
    if request.wait(Duration::from_millis(ms)) {
        return request.cancelled_outcome();
    }
    RequestOutcome::Result(content::text(format!("slept {ms} ms")))
}

fn environment() -> Value {
    let variables: serde_json::Map<String, Value> = std::env::vars_os()
        .map(|(name, value)| {
            (
                name.to_string_lossy().into_owned(),
                value.to_string_lossy().into(),
            )
        })
        .collect();
    content::document(&variables.into())
}

fn log(request: &ScriptRequest) -> Value {
    let level = request.argument("level").as_str().unwrap_or("info");
    let threshold = if request.is_stateless() {
        // Without a level in its request a stateless client wants no messages.
        request
            .meta(wire::META_LOG_LEVEL)
            .and_then(Value::as_str)
            .map(str::to_owned)
    } else {
        let asked = lock(&request.session.log_level).clone();
        Some(asked.unwrap_or_else(|| "debug".to_owned()))
    };
    let rank = |level: &str| LEVELS.iter().position(|known| *known == level);
    let wanted = threshold.is_some_and(|threshold| rank(level) >= rank(&threshold));
    if !wanted && request.argument("force") != true {
        return content::text("not wanted");
    }
    let mut params = json!({ "level": level, "data": request.argument("message") });
    if let Some(logger) = request.argument("logger").as_str() {
        params["logger"] = json!(logger);
    }
    request.notify("notifications/message", &params);
    content::text("logged")
}

fn spawn_grandchild(request: &ScriptRequest) -> Value {
    let kind = if request.argument("detach") == true {
        Grandchild::Detached
    } else {
        Grandchild::Attached
    };
    match grandchild::spawn(kind) {
        Ok(pid) => content::text(pid.to_string()),
        Err(error) => content::failure(&error.to_string()),
    }
}

fn integer_or(value: &Value, default: usize) -> usize {
    value
        .as_u64()
        .and_then(|number| usize::try_from(number).ok())
        .unwrap_or(default)
}

fn list_items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}
