//! Parses the error replies of the various providers.

use std::time::Duration;

use serde_json::Value;

use crate::{
    model::{Endpoint, ModelProblem},
    retry_after::parse_retry_after,
};

/// How much of an error body is read, and for how long.
const BODY_LIMIT: usize = 64 * 1024;
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// An error reply, as status or in the middle of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProviderRefusal {
    status: u16,
    code: String,
    message: String,
    context_limit: Option<u32>,
    retry_after: Option<Duration>,
}

impl ProviderRefusal {
    /// Reads an error response.
    pub(crate) async fn from_response(mut response: reqwest::Response) -> Self {
        let status = response.status();
        let retry_after = parse_retry_after(response.headers());
        let mut body = Vec::new();
        let read = async {
            while body.len() < BODY_LIMIT
                && let Ok(Some(chunk)) = response.chunk().await
            {
                body.extend_from_slice(&chunk);
            }
        };
        // On timeout, the part that arrived is used.
        let _ = tokio::time::timeout(BODY_TIMEOUT, read).await;
        let mut refusal = match serde_json::from_slice::<Value>(&body) {
            Ok(body) => Self::from_json(&body),
            Err(_) => Self::from_text(&String::from_utf8_lossy(&body)),
        };
        if refusal.message.trim().is_empty() {
            refusal.message = status
                .canonical_reason()
                .unwrap_or("no reason given")
                .into();
        }
        refusal.status = status.as_u16();
        refusal.retry_after = retry_after;
        refusal
    }

    fn from_text(text: &str) -> Self {
        // An HTML page says no more than the status.
        let is_page = text.trim_start().starts_with('<');
        Self {
            status: 500,
            code: String::new(),
            message: if is_page { String::new() } else { text.into() },
            context_limit: None,
            retry_after: None,
        }
    }

    /// Reads an error object. Its status is guessed from its code; the real one replaces it.
    pub(crate) fn from_json(body: &Value) -> Self {
        let error = body.get("error").unwrap_or(body);
        let text = |key: &str| error[key].as_str().unwrap_or_default();
        let message = match error {
            Value::String(message) => message.clone(),
            _ => ["message", "detail", "msg"]
                .iter()
                .map(|key| text(key))
                .find(|text| !text.is_empty())
                .map_or_else(|| error.to_string(), str::to_owned),
        };
        // OpenRouter passes on the message of the provider behind it.
        let message = match error["metadata"]["raw"].as_str() {
            Some(raw) => format!("{message}: {raw}"),
            None => message,
        };
        let code = [text("code"), text("type")]
            .into_iter()
            .find(|code| !code.is_empty())
            .unwrap_or_default();
        let status = error["code"]
            .as_u64()
            .or(error["status"].as_u64())
            .and_then(|status| u16::try_from(status).ok())
            .filter(|status| (400..600).contains(status))
            .unwrap_or_else(|| status_for_code(code));
        Self {
            status,
            context_limit: error["n_ctx"]
                .as_u64()
                .and_then(|limit| u32::try_from(limit).ok())
                .or_else(|| parse_context_limit(&message)),
            code: code.to_owned(),
            message,
            retry_after: None,
        }
    }

    /// The problem for the caller, without credentials.
    pub(crate) fn into_problem(self, endpoint: &Endpoint) -> ModelProblem {
        let message = endpoint.sanitize(&self.message);
        match self.status {
            status @ (401 | 403) => ModelProblem::KeyRefused {
                status,
                key: endpoint.key.source.clone(),
                message,
            },
            404 => ModelProblem::NotFound {
                model: endpoint.model.clone(),
                message,
            },
            // An exhausted account gets the same status as a rate limit.
            429 if self.code != "insufficient_quota" => ModelProblem::RateLimited {
                retry_after: self.retry_after,
                message,
            },
            status if status != 429 && self.is_overflow() => ModelProblem::ContextOverflow {
                limit: self.context_limit,
                message,
            },
            status => ModelProblem::Refused {
                status,
                retry_after: self.retry_after,
                message,
            },
        }
    }

    fn is_overflow(&self) -> bool {
        const OVERFLOW_CODES: [&str; 4] = [
            "context_length_exceeded",
            "exceed_context_size_error",
            "request_too_large",
            "string_above_max_length",
        ];
        // As OpenAI, Anthropic, vLLM, llama.cpp, LM Studio, Ollama, Google and Mistral put it.
        const OVERFLOW_PHRASES: [&str; 16] = [
            "maximum context length",
            "context length exceeded",
            "exceeds the context",
            "exceed context limit",
            "exceeds the available context size",
            "context window",
            "context size has been exceeded",
            "context length of only",
            "larger than the context",
            "greater than the context length",
            "prompt is too long",
            "prompt too long",
            "input is too long",
            "input token count",
            "reduce the length of the messages",
            "too large for model",
        ];
        let message = self.message.to_lowercase();
        OVERFLOW_CODES.contains(&self.code.as_str())
            || OVERFLOW_PHRASES.iter().any(|words| message.contains(words))
    }
}

/// The HTTP status for an error code.
fn status_for_code(code: &str) -> u16 {
    match code {
        "authentication_error" | "invalid_api_key" => 401,
        "permission_error" => 403,
        "not_found_error" | "model_not_found" => 404,
        "request_too_large" => 413,
        "rate_limit_error" | "rate_limit_exceeded" | "insufficient_quota" => 429,
        "overloaded_error" => 529,
        "timeout_error" => 504,
        "invalid_request_error"
        | "context_length_exceeded"
        | "exceed_context_size_error"
        | "billing_error" => 400,
        // An error in a started reply is a failure of the provider.
        _ => 500,
    }
}

/// The context size, if the message names it.
fn parse_context_limit(message: &str) -> Option<u32> {
    let message = message.to_lowercase();
    let number_after = |words: &str| {
        let (_, rest) = message.split_once(words)?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    let number_before = |words: &str| {
        let (before, _) = message.split_once(words)?;
        let digits = before.rsplit(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    };
    number_after("maximum context length is ")
        .or_else(|| number_after("context size ("))
        .or_else(|| number_after("context length of only "))
        .or_else(|| number_before(" maximum"))
}

#[cfg(test)]
mod tests;
