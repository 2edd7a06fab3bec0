//! Delivery of a message: split into pieces, which are posted in order until one fails.

use super::{
    chunk::{self, LengthLimit},
    error::PlatformFailure,
    media::{self, MediaFile},
    target::ChatTarget,
};

/// A platform's size limits.
pub(super) struct MessageLimits {
    pub(super) message: LengthLimit,
    pub(super) caption: LengthLimit,
}

/// One post: text, files that are shown together, or these with a text.
#[derive(Debug)]
pub(super) struct MessagePiece {
    pub(super) text: String,
    /// ` (1/2)`, appended to the text.
    pub(super) number: String,
    pub(super) files: Vec<MediaFile>,
}

/// The most files in one message: every platform takes ten.
const ALBUM: usize = 10;

/// A platform's reply to a posted piece.
#[derive(Debug)]
pub(super) struct PostReceipt {
    pub(super) message_id: String,
    /// The chat's own id, if the platform returns it.
    pub(super) chat_id: Option<String>,
}

/// A chat of a platform that pieces can be posted to.
pub(super) trait PlatformChannel {
    async fn post(&mut self, piece: &MessagePiece) -> Result<PostReceipt, PlatformFailure>;

    /// The chat that was posted to, and warnings.
    fn into_parts(self) -> (ChatTarget, Vec<String>);
}

pub(super) struct DeliveredMessage {
    pub(super) chat: ChatTarget,
    pub(super) receipt: PostReceipt,
    pub(super) warnings: Vec<String>,
}

/// Splits a message into pieces.
pub(super) fn split_message(
    text: &str,
    files: Vec<MediaFile>,
    limits: &MessageLimits,
) -> Vec<MessagePiece> {
    let mut albums = media::join_albums(files, |file| file.kind, ALBUM);
    if albums.len() == 1 && limits.caption.fits(text) {
        return vec![MessagePiece {
            text: text.to_owned(),
            number: String::new(),
            files: albums.pop().unwrap_or_default(),
        }];
    }
    let parts = match text.trim() {
        "" => Vec::new(),
        _ => chunk::split_text(text, &limits.message),
    };
    let count = parts.len();
    let texts = parts
        .into_iter()
        .enumerate()
        .map(|(index, text)| MessagePiece {
            text,
            number: chunk::part_number(index + 1, count),
            files: Vec::new(),
        });
    let files = albums.into_iter().map(|files| MessagePiece {
        text: String::new(),
        number: String::new(),
        files,
    });
    texts.chain(files).collect()
}

/// Posts the pieces in order. An error comes with the number of posted pieces.
pub(super) async fn post_pieces(
    mut channel: impl PlatformChannel,
    pieces: &[MessagePiece],
) -> Result<DeliveredMessage, (PlatformFailure, usize)> {
    let mut receipt = PostReceipt {
        message_id: String::new(),
        chat_id: None,
    };
    for (sent, piece) in pieces.iter().enumerate() {
        receipt = channel
            .post(piece)
            .await
            .map_err(|failure| (failure, sent))?;
    }
    let (chat, warnings) = channel.into_parts();
    Ok(DeliveredMessage {
        chat,
        receipt,
        warnings,
    })
}
