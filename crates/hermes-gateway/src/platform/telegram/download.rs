//! Files of received messages.

use std::path::Path;

use serde_json::json;
use tokio::{fs::File, io::AsyncWriteExt as _};

use super::{
    super::{Attachment, PostError},
    TelegramClient,
    api::{BotApiError, REPLY_TIMEOUT},
};

impl TelegramClient {
    /// Writes an attachment to a file, which is removed again if that fails.
    pub(super) async fn download_file(
        &self,
        attachment: &Attachment,
        path: &Path,
        max_bytes: u64,
    ) -> Result<(), PostError> {
        if attachment.size.is_some_and(|size| size > max_bytes) {
            return Err(too_large(max_bytes));
        }
        let parameters = json!({"file_id": attachment.reference});
        let found = match self.api.call("getFile", &parameters).await {
            Ok(found) => found,
            Err(error) if error.says("file is too big") => {
                return Err(PostError::Refused {
                    reason: "the file is larger than the 20 MB that Telegram hands to bots".into(),
                });
            }
            Err(error) => return Err(error.into_post_error()),
        };
        let Some(remote) = found["file_path"].as_str() else {
            return Err(PostError::Refused {
                reason: "Telegram does not offer the file for download".into(),
            });
        };
        let copied = self.copy_file(remote, path, max_bytes).await;
        if copied.is_err() {
            // Half a file is of no use; there may be none.
            let _ = tokio::fs::remove_file(path).await;
        }
        copied
    }

    async fn copy_file(&self, remote: &str, path: &Path, max_bytes: u64) -> Result<(), PostError> {
        let mut response = self
            .api
            .open_file(remote)
            .await
            .map_err(BotApiError::into_post_error)?;
        let mut file = File::create(path)
            .await
            .map_err(|error| unwritable(&error))?;
        let mut written = 0;
        loop {
            let chunk = response
                .chunk()
                .await
                .map_err(|error| self.api.failure(error, REPLY_TIMEOUT).into_post_error())?;
            let Some(chunk) = chunk else {
                break;
            };
            written += chunk.len() as u64;
            if written > max_bytes {
                return Err(too_large(max_bytes));
            }
            file.write_all(&chunk)
                .await
                .map_err(|error| unwritable(&error))?;
        }
        file.flush().await.map_err(|error| unwritable(&error))
    }
}

fn too_large(max_bytes: u64) -> PostError {
    PostError::Refused {
        reason: format!("the file is larger than {} MB", max_bytes >> 20),
    }
}

fn unwritable(error: &std::io::Error) -> PostError {
    PostError::Temporary {
        reason: format!("the file cannot be written: {error}"),
    }
}
