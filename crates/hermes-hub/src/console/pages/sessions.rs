//! Who is signed in.

use askama::Template;
use serde::Deserialize;
use serde_json::json;

use super::render;
use crate::{
    Problem,
    api_types::Time,
    console::{frame::Frame, request::PageRequest},
};

#[derive(Template)]
#[template(path = "pages/sessions.html")]
struct SessionsPage {
    page: Frame,
    sessions: Vec<SessionView>,
    own: String,
    may_link: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionView {
    session_id: String,
    token_id: Option<String>,
    person: Option<String>,
    address: String,
    user_agent: String,
    created_at: Time,
    used_at: Time,
}

impl SessionView {
    /// What the browser calls itself, in short. All of them name others, too: the order decides.
    fn browser(&self) -> String {
        let find = |known: &[(&str, &'static str)]| {
            let mut known = known.iter();
            let found = known.find(|(word, _)| self.user_agent.contains(word));
            found.map(|(_, name)| *name)
        };
        let browser = find(&[
            ("Firefox/", "Firefox"),
            ("Edg/", "Edge"),
            ("OPR/", "Opera"),
            ("Chrome/", "Chrome"),
            ("Safari/", "Safari"),
        ]);
        let system = find(&[
            ("Android", "Android"),
            ("iPhone", "iPhone"),
            ("iPad", "iPad"),
            ("Windows", "Windows"),
            ("Mac OS X", "macOS"),
            ("Linux", "Linux"),
        ]);
        match (browser, system) {
            (Some(browser), Some(system)) => format!("{browser} · {system}"),
            (Some(name), None) | (None, Some(name)) => name.to_owned(),
            (None, None) => self.user_agent.chars().take(40).collect(),
        }
    }
}

#[derive(Deserialize)]
struct SessionList {
    sessions: Vec<SessionView>,
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let list: SessionList = request.read("list_console_sessions", json!({})).await?;
    render(&SessionsPage {
        page: Frame::new(&request, request.texts.get("nav.sessions")),
        sessions: list.sessions,
        may_link: request.may("create_sign_in_link"),
        own: request.signed_in.session.id.to_string(),
    })
}
