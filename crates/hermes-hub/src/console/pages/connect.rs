//! How programs connect to this Hub by MCP: what to write where, with this Hub's address.

use askama::Template;

use super::render;
use crate::{
    Problem,
    client_snippets::{ClientSnippet, client_snippets},
    console::{frame::Frame, request::PageRequest},
};

#[derive(Template)]
#[template(path = "pages/connect.html")]
struct ConnectPage {
    page: Frame,
    url: String,
    is_served: bool,
    snippets: Vec<ClientSnippet>,
    may_mint: bool,
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let settings = request.hub.settings();
    let url = format!("{}/mcp", settings.public_url.trim_end_matches('/'));
    render(&ConnectPage {
        page: Frame::new(&request, request.texts.get("nav.connect")),
        snippets: client_snippets(&url),
        is_served: settings.mcp.enabled,
        url,
        may_mint: request.may("create_token"),
    })
}
