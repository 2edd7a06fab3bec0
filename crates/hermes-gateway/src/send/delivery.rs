//! Delivery of a message: split into pieces, which are posted in order until one fails.

use super::{
    chunk::{self, Limit},
    error::Failure,
    media::File,
    target::Chat,
};

/// A platform's size limits.
pub(super) struct Limits {
    pub(super) message: Limit,
    pub(super) caption: Limit,
}

/// One post: text, a file, or a file with a text.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) text: String,
    /// ` (1/2)`, appended to the text.
    pub(super) number: String,
    pub(super) file: Option<File>,
}

/// A platform's reply to a posted piece.
#[derive(Debug)]
pub(super) struct Receipt {
    pub(super) message_id: String,
    /// The chat's own id, if the platform returns it.
    pub(super) chat_id: Option<String>,
}

/// A chat of a platform that pieces can be posted to.
pub(super) trait Channel {
    async fn post(&mut self, piece: &Piece) -> Result<Receipt, Failure>;

    /// The chat that was posted to, and warnings.
    fn into_parts(self) -> (Chat, Vec<String>);
}

pub(super) struct Delivered {
    pub(super) chat: Chat,
    pub(super) receipt: Receipt,
    pub(super) warnings: Vec<String>,
}

/// Splits a message into pieces.
pub(super) fn pieces(text: &str, mut files: Vec<File>, limits: &Limits) -> Vec<Piece> {
    if files.len() == 1 && limits.caption.holds(text) {
        return vec![Piece {
            text: text.to_owned(),
            number: String::new(),
            file: files.pop(),
        }];
    }
    let parts = match text.trim() {
        "" => Vec::new(),
        _ => chunk::split(text, &limits.message),
    };
    let count = parts.len();
    let texts = parts.into_iter().enumerate().map(|(index, text)| Piece {
        text,
        number: chunk::number(index + 1, count),
        file: None,
    });
    let files = files.into_iter().map(|file| Piece {
        text: String::new(),
        number: String::new(),
        file: Some(file),
    });
    texts.chain(files).collect()
}

/// Posts the pieces in order. An error comes with the number of posted pieces.
pub(super) async fn deliver(
    mut channel: impl Channel,
    pieces: &[Piece],
) -> Result<Delivered, (Failure, usize)> {
    let mut receipt = Receipt {
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
    Ok(Delivered {
        chat,
        receipt,
        warnings,
    })
}
