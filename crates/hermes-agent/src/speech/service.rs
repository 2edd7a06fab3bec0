//! Transcripts by a service that has OpenAI's `POST {base_url}/audio/transcriptions`.

use std::{path::Path, time::Duration};

use hermes_config::{Redactor, Secret, SpeechService};
use reqwest::{
    Response, StatusCode,
    multipart::{Form, Part},
};
use serde_json::Value;
use url::Url;

use super::{MAX_TRANSCRIPT_BYTES, TranscriptionError};
use crate::{
    model::{ClientError, ResolveContext},
    retry_after::parse_retry_after,
};

/// What OpenAI takes, and its like.
const MAX_SOUND_BYTES: u64 = 25 << 20;
const MAX_ATTEMPTS: u32 = 3;
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest reason of a service that is passed on, in characters.
const MAX_REASON_CHARS: usize = 200;

pub(super) async fn transcribe(
    service: &SpeechService,
    context: &ResolveContext<'_>,
    sound: &Path,
) -> Result<String, TranscriptionError> {
    let unreadable = |error: std::io::Error| TranscriptionError::Unreadable {
        reason: error.to_string(),
    };
    let size = tokio::fs::metadata(sound).await.map_err(unreadable)?.len();
    if size > MAX_SOUND_BYTES {
        return Err(TranscriptionError::TooLarge {
            size,
            limit: MAX_SOUND_BYTES,
        });
    }
    let request = ServiceRequest {
        url: transcription_url(service)?,
        key: find_key(service, context).await?,
        service,
        context,
    };
    let mut attempt = 1;
    loop {
        let form = request.form(sound).await.map_err(unreadable)?;
        match request.send(form).await? {
            Attempt::Text(text) => return Ok(text),
            Attempt::Failed(failure, _) if attempt == MAX_ATTEMPTS => return Err(failure),
            // The timeout of the whole ends longer waits.
            Attempt::Failed(_, wait) => {
                tokio::time::sleep(wait.unwrap_or(FIRST_RETRY * attempt)).await;
            }
        }
        attempt += 1;
    }
}

/// One attempt that did not settle the matter against the request.
enum Attempt {
    Text(String),
    /// It may work later, after so long.
    Failed(TranscriptionError, Option<Duration>),
}

struct ServiceRequest<'a> {
    service: &'a SpeechService,
    context: &'a ResolveContext<'a>,
    url: Url,
    key: Option<Secret<String>>,
}

impl ServiceRequest<'_> {
    /// The form of one attempt; the file is read while it is sent.
    async fn form(&self, sound: &Path) -> std::io::Result<Form> {
        let file = Part::file(sound).await?.file_name(upload_name(sound));
        let mut form = Form::new()
            .part("file", file)
            .text("model", self.service.model.clone())
            .text("response_format", "json");
        if let Some(language) = &self.service.language {
            form = form.text("language", language.clone());
        }
        Ok(form)
    }

    async fn send(&self, form: Form) -> Result<Attempt, TranscriptionError> {
        let client = match self.context.clients.client_for(&self.url) {
            Ok(client) => client,
            Err(ClientError::EgressDenied(denied)) => return Err(denied.into()),
            Err(ClientError::Build(error)) => return Err(self.unreachable(error)),
        };
        let mut request = client.post(self.url.clone()).multipart(form);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key.expose());
        }
        let received = async {
            let response = request.send().await?;
            let (status, wait) = (response.status(), parse_retry_after(response.headers()));
            Ok((status, wait, read_body(response).await?))
        };
        let (status, wait, body) = match received.await {
            Ok(received) => received,
            Err(error) => return Ok(Attempt::Failed(self.unreachable(error), None)),
        };
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        if status.is_success() {
            return match body["text"].as_str() {
                Some(text) => Ok(Attempt::Text(text.to_owned())),
                None => Err(self.refused(status, "its reply has no text")),
            };
        }
        if matches!(status.as_u16(), 401 | 403) {
            return Err(TranscriptionError::KeyRefused {
                provider: self.service.provider.clone(),
                status: status.as_u16(),
                place: key_place(self.service),
            });
        }
        let reason = body.pointer("/error/message").or(body.get("error"));
        let reason = reason.and_then(Value::as_str).unwrap_or("no reason given");
        let failure = self.refused(status, reason);
        if status.is_server_error() || matches!(status.as_u16(), 408 | 429) {
            return Ok(Attempt::Failed(failure, wait));
        }
        Err(failure)
    }

    fn refused(&self, status: StatusCode, reason: &str) -> TranscriptionError {
        let reason = Redactor::new(self.key.clone()).redact(reason).into_owned();
        TranscriptionError::Refused {
            provider: self.service.provider.clone(),
            status: status.as_u16(),
            reason: reason.chars().take(MAX_REASON_CHARS).collect(),
        }
    }

    fn unreachable(&self, error: reqwest::Error) -> TranscriptionError {
        let error = error.without_url();
        let mut innermost: &dyn std::error::Error = &error;
        while let Some(source) = innermost.source() {
            innermost = source;
        }
        TranscriptionError::Unreachable {
            provider: self.service.provider.clone(),
            reason: innermost.to_string(),
        }
    }
}

fn transcription_url(service: &SpeechService) -> Result<Url, TranscriptionError> {
    let address = format!(
        "{}/audio/transcriptions",
        service.base_url.trim_end_matches('/')
    );
    Url::parse(&address)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| TranscriptionError::Unreachable {
            provider: service.provider.clone(),
            reason: "`base_url` has to begin with `http://` or `https://`".into(),
        })
}

async fn find_key(
    service: &SpeechService,
    context: &ResolveContext<'_>,
) -> Result<Option<Secret<String>>, TranscriptionError> {
    if let Some(template) = &service.api_key
        && let Some(key) = context.fill_key("stt.api_key", template).await?
    {
        return Ok(Some(key));
    }
    for name in &service.key_variables {
        if let Some(key) = context.find_named_key(name).await? {
            return Ok(Some(key));
        }
    }
    if service.needs_key {
        return Err(TranscriptionError::NoKey {
            provider: service.provider.clone(),
            place: key_place(service),
        });
    }
    Ok(None)
}

/// Where the key is, for people.
fn key_place(service: &SpeechService) -> String {
    let written = service
        .api_key
        .as_ref()
        .map(|_| "`stt.api_key`".to_owned())
        .into_iter();
    let variables = service.key_variables.iter().map(|name| format!("`{name}`"));
    let places: Vec<String> = written.chain(variables).collect();
    if places.is_empty() {
        "`stt.api_key` or `stt.key_env` in `config.yaml`".into()
    } else {
        places.join(" or ")
    }
}

/// The file's name with an extension that services know: `.opus` and `.oga` are Ogg files.
fn upload_name(sound: &Path) -> String {
    let extension = sound
        .extension()
        .and_then(|it| it.to_str())
        .unwrap_or("ogg");
    let extension = extension.to_ascii_lowercase();
    match extension.as_str() {
        "opus" | "oga" => "voice.ogg".into(),
        other => format!("voice.{other}"),
    }
}

/// The body, as far as a transcript may be long.
async fn read_body(mut response: Response) -> reqwest::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if bytes.len() + chunk.len() > MAX_TRANSCRIPT_BYTES {
            break;
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_voice_note_has_a_name_that_services_know() {
        for (path, name) in [
            ("/c/1.ogg", "voice.ogg"),
            ("/c/2_note.OGA", "voice.ogg"),
            ("/c/3.opus", "voice.ogg"),
            ("/c/4.m4a", "voice.m4a"),
            ("/c/5", "voice.ogg"),
        ] {
            assert_eq!(upload_name(Path::new(path)), name);
        }
    }
}
