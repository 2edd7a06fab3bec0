//! A page that a server wants visited: shown, and opened only with the person's consent.

use std::{fmt::Write as _, io};

use hermes_agent::server_requests::elicitation::{ElicitationAnswer, LinkRequest};

use super::{form::read_word, write_message};
use crate::question::browser;

/// Shows the address and asks whether to open it.
pub(crate) fn ask_link(request: &LinkRequest) -> io::Result<ElicitationAnswer<()>> {
    write_message(&heading(request))?;
    match read_word("Open it in the browser? [y/N] ")?.as_deref() {
        None => Ok(ElicitationAnswer::Cancelled),
        Some("y" | "yes") => {
            if !browser::open_url(&request.url) {
                write_message("No browser could be started; open the address above yourself.\n")?;
            }
            Ok(ElicitationAnswer::Accepted(()))
        }
        Some(_) => Ok(ElicitationAnswer::Declined),
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
