//! Files: uploads in three steps, and downloads with the bot's token.

use std::{path::Path, time::Duration};

use reqwest::{
    Body,
    header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE},
};
use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio_util::io::ReaderStream;

use super::{SlackCore, api::bearer};
use crate::{
    platform::{Attachment, OutboundFile, PostError, Posted},
    send::root_cause,
};

/// A transfer that takes longer is given up.
const TRANSFER_TIMEOUT: Duration = Duration::from_mins(10);

impl SlackCore {
    /// Uploads files and shares them as one message, whose text is the comment.
    pub(super) async fn upload_files(
        &self,
        channel: &str,
        thread: Option<&str>,
        files: &[OutboundFile],
        comment: &str,
    ) -> Result<Posted, PostError> {
        let mut uploaded = Vec::new();
        for file in files {
            let id = self.upload_file(file).await?;
            uploaded.push(json!({"id": id, "title": file.name}));
        }
        let first = uploaded[..].first().and_then(|file| file["id"].as_str());
        let message_id = first.unwrap_or_default().to_owned();
        let mut body = json!({"files": uploaded, "channel_id": channel});
        if !comment.trim().is_empty() {
            body["initial_comment"] = json!(comment);
        }
        if let Some(thread) = thread {
            body["thread_ts"] = json!(thread);
        }
        self.api.call("files.completeUploadExternal", &body).await?;
        Ok(Posted {
            message_id,
            warning: None,
        })
    }

    /// Uploads one file; returns its id.
    async fn upload_file(&self, file: &OutboundFile) -> Result<String, PostError> {
        let unreadable = |error: std::io::Error| PostError::Refused {
            reason: format!("the file `{}` cannot be read: {error}", file.name),
        };
        let opened = tokio::fs::File::open(&file.path)
            .await
            .map_err(unreadable)?;
        let length = opened.metadata().await.map_err(unreadable)?.len();
        if length == 0 {
            return Err(PostError::Refused {
                reason: format!(
                    "the file `{}` is empty, which Slack does not take",
                    file.name
                ),
            });
        }
        let number = length.to_string();
        let fields = [("filename", file.name.as_str()), ("length", &number)];
        let place = self.api.read("files.getUploadURLExternal", &fields).await?;
        let text = |name: &str| place[name].as_str().unwrap_or_default();
        let url = self.api.check_url(text("upload_url"));
        let url = url.map_err(|reason| PostError::Refused {
            reason: format!("Slack returned an unusable upload address: {reason}"),
        })?;
        // The URL itself is secret; the token must not be sent to it.
        let request = self
            .api
            .client()
            .post(url)
            .timeout(TRANSFER_TIMEOUT)
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(CONTENT_LENGTH, length)
            .body(Body::wrap_stream(ReaderStream::new(opened)));
        let response = request
            .send()
            .await
            .map_err(|error| temporary(&error.without_url()))?;
        let status = response.status().as_u16();
        match status {
            200..300 => Ok(text("file_id").to_owned()),
            429 | 500.. => Err(PostError::Temporary {
                reason: format!("the upload failed with status {status}"),
            }),
            _ => Err(PostError::Refused {
                reason: format!("the upload failed with status {status}"),
            }),
        }
    }

    pub(super) async fn download_file(
        &self,
        attachment: &Attachment,
        file: &Path,
        max_bytes: u64,
    ) -> Result<(), PostError> {
        let reference = match attachment.reference.strip_prefix("file:") {
            Some(id) => self.find_address(id).await?,
            None => attachment.reference.clone(),
        };
        let refused = |reason: &str| PostError::Refused {
            reason: reason.to_owned(),
        };
        let url = self.api.check_url(&reference);
        let url = url.map_err(|reason| refused(&format!("the file's address: {reason}")))?;
        if !self.api.may_see_token(&url) {
            return Err(refused("the file is not on Slack's servers"));
        }
        let too_large = || refused(&format!("the file is larger than {} MiB", max_bytes >> 20));
        let transfer = async {
            let request = self.api.client().get(url);
            let request = request.header(AUTHORIZATION, bearer(self.api.token())?);
            let sent = request.send().await;
            let mut response = sent.map_err(|error| temporary(&error.without_url()))?;
            let status = response.status().as_u16();
            let kind = response.headers().get(CONTENT_TYPE);
            let is_page = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
            let is_page_wanted = attachment.mime_type.as_deref() == Some("text/html");
            match status {
                200..300 if !is_page || is_page_wanted => {}
                // To somebody who may not read files Slack shows a page to log in.
                200..=399 | 401 | 403 => {
                    return Err(refused(
                        "Slack does not give the file: the app may lack the scope `files:read`",
                    ));
                }
                429 | 500.. => {
                    return Err(PostError::Temporary {
                        reason: format!("the download failed with status {status}"),
                    });
                }
                _ => {
                    return Err(refused(&format!(
                        "the download failed with status {status}"
                    )));
                }
            }
            if response
                .content_length()
                .is_some_and(|length| length > max_bytes)
            {
                return Err(too_large());
            }
            let unwritable =
                |error: std::io::Error| refused(&format!("the file cannot be written: {error}"));
            let mut output = tokio::fs::File::create(file).await.map_err(unwritable)?;
            let mut length = 0;
            loop {
                let chunk = response.chunk().await;
                let Some(chunk) = chunk.map_err(|error| temporary(&error.without_url()))? else {
                    break;
                };
                length += chunk.len() as u64;
                if length > max_bytes {
                    return Err(too_large());
                }
                output.write_all(&chunk).await.map_err(unwritable)?;
            }
            output.flush().await.map_err(unwritable)
        };
        match tokio::time::timeout(TRANSFER_TIMEOUT, transfer).await {
            Ok(result) => result,
            Err(_) => Err(PostError::Temporary {
                reason: "the download timed out".into(),
            }),
        }
    }

    /// The address of a file of which only the id came.
    async fn find_address(&self, id: &str) -> Result<String, PostError> {
        let found = self.api.read("files.info", &[("file", id)]).await?;
        let file = &found["file"];
        let address = file["url_private_download"].as_str();
        let address = address.or_else(|| file["url_private"].as_str());
        let address = address.ok_or_else(|| PostError::Refused {
            reason: "Slack returned no address for the file".into(),
        })?;
        Ok(address.to_owned())
    }
}

fn temporary(error: &reqwest::Error) -> PostError {
    PostError::Temporary {
        reason: root_cause(error),
    }
}
