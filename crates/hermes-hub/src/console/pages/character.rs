//! What an agent is and knows: `SOUL.md`, its memory, and what it knows about its users.

use askama::Template;
use serde::Deserialize;
use serde_json::json;

use super::render;
use crate::{
    Problem,
    console::{frame::Frame, request::PageRequest},
};

#[derive(Template)]
#[template(path = "pages/character.html")]
struct CharacterPage {
    page: Frame,
    tenant: String,
    texts: Vec<CharacterText>,
}

/// One of the texts.
struct CharacterText {
    /// `soul`, `memory` or `user`.
    kind: &'static str,
    title: String,
    what: String,
    /// The operations that read and write it.
    reader: &'static str,
    writer: &'static str,
    read: Result<TextView, Problem>,
    may_write: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TextView {
    content: String,
    max_chars: u64,
    etag: String,
}

impl CharacterText {
    fn is_memory(&self) -> bool {
        self.writer == "put_memory"
    }

    fn rows(&self, text: &TextView) -> usize {
        text.content.lines().count().clamp(6, 30)
    }

    fn chars(&self, text: &TextView) -> usize {
        text.content.chars().count()
    }
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    let tenant = request.path_value("tenant_id").to_owned();
    let mut texts = Vec::new();
    for (kind, reader, writer) in [
        ("soul", "get_soul", "put_soul"),
        ("memory", "get_memory", "put_memory"),
        ("user", "get_memory", "put_memory"),
    ] {
        let mut arguments = json!({"tenant_id": tenant});
        if reader == "get_memory" {
            arguments["kind"] = kind.into();
        }
        let read = request.read(reader, arguments).await;
        // Without the tenant there is no page; a text that cannot be read leaves the others.
        if let Err(problem) = &read
            && problem.code == crate::ProblemCode::NotFound
        {
            return Err(problem.clone());
        }
        let text = |part: &str| {
            let key = format!("character.{kind}{part}");
            request.texts.get(&key).to_owned()
        };
        texts.push(CharacterText {
            kind,
            title: text(""),
            what: text("_what"),
            reader,
            writer,
            read,
            may_write: request.may(writer),
        });
    }
    render(&CharacterPage {
        page: Frame::new(&request, request.texts.get("tabs.character")),
        tenant,
        texts,
    })
}
