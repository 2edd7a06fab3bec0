//! A page that a server wants visited: shown, and opened only with the person's consent.

use std::{fmt::Write as _, io};

use hermes_agent::elicitation::{Answer, LinkRequest};

use super::{form::word, say};
use crate::browser;

/// Shows the address and asks whether to open it.
pub(crate) fn ask(request: &LinkRequest) -> io::Result<Answer<()>> {
    say(&heading(request))?;
    match word("Open it in the browser? [y/N] ")?.as_deref() {
        None => Ok(Answer::Cancelled),
        Some("y" | "yes") => {
            if !browser::open(&request.url) {
                say("No browser could be started; open the address above yourself.\n")?;
            }
            Ok(Answer::Accepted(()))
        }
        Some(_) => Ok(Answer::Declined),
    }
}

fn heading(request: &LinkRequest) -> String {
    let mut text = format!(
        "\nThe MCP server `{}` wants you to visit a page:\n",
        request.server
    );
    for line in request.message.lines() {
        let _ = writeln!(text, "  {line}");
    }
    text + &format!("  {}\nIt leads to {}.\n", request.url, request.host)
}
