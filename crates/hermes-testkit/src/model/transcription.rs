//! `POST /v1/audio/transcriptions`, as OpenAI has it: what it takes, what it refuses, and in which words.
//!
//! The sound files of tests hold the words themselves, behind the letters that an Ogg file begins with.

use axum::{
    Json,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use serde_json::json;

use super::{
    chat,
    script::ScriptedAnswer,
    server::{ScriptedModel, refuse_chat},
};
use crate::platform::PlatformRequest;

const MAX_BYTES: usize = 25 << 20;
const FORMATS: [&str; 10] = [
    "flac", "m4a", "mp3", "mp4", "mpeg", "mpga", "oga", "ogg", "wav", "webm",
];

impl ScriptedModel {
    pub(super) async fn transcribe(&self, headers: &HeaderMap, bytes: &[u8]) -> Response {
        let request = PlatformRequest::new("POST", "/v1/audio/transcriptions", headers, bytes);
        let position = self.record_transcription(request.clone());
        if let Some(refusal) = self.refuse_chat_request(headers, &request.field("model")) {
            return refusal;
        }
        if bytes.len() > MAX_BYTES {
            let message = format!(
                "413: Maximum content size limit ({MAX_BYTES}) exceeded ({} bytes read)",
                bytes.len()
            );
            return refuse_chat(413, &message, None);
        }
        if let Some(fault) = find_fault(&request) {
            return refuse_chat(400, &fault, None);
        }
        let text = match self.scripted_transcript(position) {
            Some(ScriptedAnswer::Silence) => std::future::pending().await,
            Some(ScriptedAnswer::Reply(reply)) => reply.text.concat(),
            None | Some(ScriptedAnswer::Echo) => spoken_words(&request),
            Some(ScriptedAnswer::Overflow) => {
                return (StatusCode::BAD_REQUEST, Json(chat::overflow(8192))).into_response();
            }
            Some(ScriptedAnswer::Status {
                status,
                message,
                code,
                ..
            }) => return refuse_chat(status, &message, code.as_deref()),
        };
        match request.field("response_format").as_str() {
            "text" => text.into_response(),
            _ => Json(json!({"text": text, "usage": {"type": "duration", "seconds": 1}}))
                .into_response(),
        }
    }
}

/// What OpenAI refuses before anything else.
fn find_fault(request: &PlatformRequest) -> Option<String> {
    let Some(file) = request.files.iter().find(|file| file.name == "file") else {
        return Some("you must provide a file parameter".into());
    };
    if request.field("model").is_empty() {
        return Some("you must provide a model parameter".into());
    }
    let extension = file.file_name.rsplit('.').next().unwrap_or_default();
    if !FORMATS.contains(&extension) {
        return Some(format!(
            "Invalid file format. Supported formats: {FORMATS:?}"
        ));
    }
    let language = request.field("language");
    if !(language.is_empty() || matches!(language.len(), 2 | 3)) {
        return Some(format!(
            "Invalid language '{language}'. Language parameter must be specified in ISO-639-1 format."
        ));
    }
    None
}

fn spoken_words(request: &PlatformRequest) -> String {
    let file = request.files.first().map(|file| file.content.as_slice());
    let content = file.unwrap_or_default();
    let words = content.strip_prefix(b"OggS").unwrap_or(content);
    String::from_utf8_lossy(words).trim().to_owned()
}
