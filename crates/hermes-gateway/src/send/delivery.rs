//! A message on its way: cut into pieces, which are posted one after the other until one fails.

use super::{
    chunk::{self, Limit},
    error::Failure,
    media::File,
    target::Chat,
};

/// How much a platform takes at once.
pub(super) struct Limits {
    pub(super) message: Limit,
    /// Beside a file.
    pub(super) caption: Limit,
}

/// What is posted at once: text, a file, or a file with a text.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) text: String,
    /// ` (1/2)`, to stand behind the text.
    pub(super) number: String,
    pub(super) file: Option<File>,
}

/// What a platform says about a piece it took.
#[derive(Debug)]
pub(super) struct Receipt {
    pub(super) message_id: String,
    /// The chat's own id, where the platform says it.
    pub(super) chat_id: Option<String>,
}

/// A chat of a platform that pieces can be posted to.
pub(super) trait Channel {
    /// Posts one piece.
    async fn post(&mut self, piece: &Piece) -> Result<Receipt, Failure>;

    /// Where the pieces went in the end, and what should be said about it.
    fn into_parts(self) -> (Chat, Vec<String>);
}

/// What became of a message.
pub(super) struct Delivered {
    pub(super) chat: Chat,
    pub(super) receipt: Receipt,
    pub(super) warnings: Vec<String>,
}

/// Cuts a message into what is posted at once.
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

/// Posts the pieces in order. An error comes with the number of those that went out.
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
