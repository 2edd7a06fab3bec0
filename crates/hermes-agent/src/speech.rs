//! What people say, as text: by a service over HTTP, or by a program of this machine. Which one, `stt` of the settings
//! says.

mod command;
mod service;

use std::{path::Path, time::Duration};

use futures::future::BoxFuture;
use hermes_config::{ReferenceError, SpeechEngine};

use crate::{conversation::Agent, policy::EgressDenied};

/// A longer text is not that of a voice message.
const MAX_TRANSCRIPT_BYTES: usize = 1 << 20;

/// Why there is no transcript. The cause, and for whoever set it up the fix; no value of a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TranscriptionError {
    #[error(
        "no transcription engine is set up; `stt` in `config.yaml` names a service or a program"
    )]
    NoEngine,
    #[error("nothing was understood in it")]
    NothingSaid,
    #[error("it has {} MB, and the service takes {} MB", size >> 20, limit >> 20)]
    TooLarge { size: u64, limit: u64 },
    #[error("there was no transcript within {} s; `stt.timeout` sets the limit", after.as_secs())]
    TimedOut { after: Duration },
    #[error("the transcription service {provider} needs a key: set {place}")]
    NoKey { provider: String, place: String },
    #[error("the key of the transcription service is not available: {0}")]
    Key(#[from] ReferenceError),
    #[error("the transcription service {provider} refused the key ({status}); check {place}")]
    KeyRefused {
        provider: String,
        status: u16,
        place: String,
    },
    #[error("the transcription service {provider} refused it ({status}): {reason}")]
    Refused {
        provider: String,
        status: u16,
        reason: String,
    },
    #[error("the transcription service {provider} cannot be reached: {reason}")]
    Unreachable { provider: String, reason: String },
    #[error("{0}")]
    EgressDenied(String),
    #[error("the transcription program `{program}` {reason}")]
    Program { program: String, reason: String },
    #[error("the sound file cannot be read: {reason}")]
    Unreadable { reason: String },
}

impl From<EgressDenied> for TranscriptionError {
    fn from(denied: EgressDenied) -> Self {
        Self::EgressDenied(denied.to_string())
    }
}

impl Agent {
    /// What is said in a sound file.
    pub fn transcribe<'a>(
        &'a self,
        sound: &'a Path,
    ) -> BoxFuture<'a, Result<String, TranscriptionError>> {
        Box::pin(async move {
            let settings = self.settings();
            let engine = settings.speech.engine.as_ref();
            let after = settings.speech.timeout;
            let said = async {
                match engine.ok_or(TranscriptionError::NoEngine)? {
                    SpeechEngine::Service(engine) => {
                        let context = self.resolve_context(&settings);
                        service::transcribe(engine, &context, sound).await
                    }
                    SpeechEngine::Command(engine) => {
                        let terminal = self.terminal_settings(&settings, self.environment());
                        command::transcribe(engine, &terminal, self.home(), sound).await
                    }
                }
            };
            let text = tokio::time::timeout(after, said)
                .await
                .unwrap_or(Err(TranscriptionError::TimedOut { after }))?;
            match text.trim() {
                "" => Err(TranscriptionError::NothingSaid),
                text => Ok(text.to_owned()),
            }
        })
    }
}
