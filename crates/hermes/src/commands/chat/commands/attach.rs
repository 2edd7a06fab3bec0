//! What goes with the next message, and what leaves the conversation: images and the clipboard.

use std::process::Stdio;

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::{ChatContext, CommandOutcome};
use crate::{
    commands::chat::{attachments, rendering::wrap},
    failure::Failure,
};

/// Terminals refuse more.
const MAX_COPIED_BYTES: usize = 74_000;

pub(super) fn image(chat: &mut ChatContext<'_>, path: &str) -> Result<CommandOutcome, Failure> {
    if path.is_empty() {
        return Err(Failure::usage("which image?").hint("`/image screenshot.png`"));
    }
    let path = chat.conversation.cwd().join(path.trim_matches(['"', '\'']));
    chat.pending.parts.push(attachments::read_image(&path)?);
    Ok(CommandOutcome::text(format!(
        "{} goes with your next message.",
        path.display()
    )))
}

/// Through the terminal itself, which works on another machine too.
pub(super) fn copy_answer(chat: &ChatContext<'_>) -> Result<CommandOutcome, Failure> {
    let answer = &chat.pending.last_answer;
    if answer.is_empty() {
        return Err(Failure::failed("there is no answer to copy yet"));
    }
    if !chat.screen.is_terminal() {
        return Err(Failure::failed(
            "there is no terminal whose clipboard could be set",
        ));
    }
    let sequence = clipboard_sequence(answer).ok_or_else(|| {
        Failure::failed("the answer is too long for a terminal's clipboard")
            .hint("`/save` writes the conversation to a file")
    })?;
    chat.screen.write_sequence(&sequence);
    Ok(CommandOutcome::text(
        "The last answer is in the clipboard, if your terminal allows it.",
    ))
}

fn clipboard_sequence(text: &str) -> Option<String> {
    let encoded = BASE64_STANDARD.encode(text);
    (encoded.len() <= MAX_COPIED_BYTES).then(|| format!("\x1b]52;c;{encoded}\x07"))
}

/// The programs that read a clipboard: an image first, then text.
const CLIPBOARD_READERS: [(&str, &[&str]); 6] = [
    ("wl-paste", &["--type", "image/png"]),
    (
        "xclip",
        &["-selection", "clipboard", "-t", "image/png", "-o"],
    ),
    ("pngpaste", &["-"]),
    ("wl-paste", &["--no-newline"]),
    ("xclip", &["-selection", "clipboard", "-o"]),
    ("pbpaste", &[]),
];

pub(super) async fn paste_clipboard(chat: &mut ChatContext<'_>) -> Result<CommandOutcome, Failure> {
    let mut is_there = false;
    for (program, arguments) in CLIPBOARD_READERS {
        let output = tokio::process::Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::select! {
            output = output => output,
            () = chat.cancel.cancelled() => return Err(Failure::interrupted()),
        };
        let Ok(output) = output else { continue };
        is_there = true;
        if !output.status.success() || output.stdout.is_empty() {
            continue;
        }
        if let Some(part) = attachments::image_from_bytes(&output.stdout) {
            chat.pending.parts.push(part);
            return Ok(CommandOutcome::text(
                "The image goes with your next message.",
            ));
        }
        if let Ok(text) = String::from_utf8(output.stdout) {
            let shown = wrap::first_line(&text, 60);
            chat.pending.notes.push(text);
            return Ok(CommandOutcome::text(format!(
                "\"{shown}\" goes with your next message."
            )));
        }
    }
    Err(if is_there {
        Failure::failed("there is neither an image nor text in the clipboard")
    } else {
        Failure::failed("no program can read the clipboard here")
            .hint("install `wl-clipboard` or `xclip`; on macOS `pngpaste` for images")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_much_fits_into_a_terminals_clipboard() {
        assert_eq!(clipboard_sequence("hi").unwrap(), "\x1b]52;c;aGk=\x07");
        assert!(clipboard_sequence(&"x".repeat(80_000)).is_none());
    }
}
