//! The Hub's own library of skills: what is in it, reading and changing a skill, and taking it out.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::render;
use crate::{
    Problem,
    api_types::Time,
    console::{frame::Frame, request::PageRequest},
};

const PAGE_SIZE: u32 = 100;
/// A longer skill is changed as an archive.
const MAX_EDITED_BYTES: usize = 256 * 1024;

#[derive(Template)]
#[template(path = "pages/library.html")]
struct LibraryPage {
    page: Frame,
    skills: Vec<LibrarySkillRow>,
    first: Option<String>,
    more: Option<String>,
    may_put: bool,
}

#[derive(Template)]
#[template(path = "pages/library_skill.html")]
struct LibrarySkillPage {
    page: Frame,
    skill: LibrarySkillRow,
    files: Vec<LibraryFileView>,
    version: String,
    /// Every file is text, and there is not too much of it.
    is_editable: bool,
    may_put: bool,
    may_delete: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LibrarySkillRow {
    name: String,
    description: String,
    version: Option<String>,
    file_count: u64,
    bytes: u64,
    updated_at: Time,
    updated_by: String,
}

#[derive(Deserialize)]
struct LibraryFileView {
    path: String,
    size: u64,
    content: Option<String>,
}

impl LibraryFileView {
    fn rows(&self) -> usize {
        let lines = self.content.as_deref().unwrap_or_default().lines();
        lines.count().clamp(4, 30)
    }
}

pub(super) async fn show(request: PageRequest) -> Result<String, Problem> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct LibraryRows {
        skills: Vec<LibrarySkillRow>,
        next_cursor: Option<String>,
    }
    let mut arguments = json!({"limit": PAGE_SIZE});
    let cursor = request.query("cursor");
    if let Some(cursor) = cursor {
        arguments["cursor"] = Value::from(cursor);
    }
    let list: LibraryRows = request.read("list_library_skills", arguments).await?;
    let more = list.next_cursor.as_deref();
    render(&LibraryPage {
        page: Frame::new(&request, request.texts.get("nav.library")),
        skills: list.skills,
        first: cursor.map(|_| request.address_with("cursor", "")),
        more: more.map(|cursor| request.address_with("cursor", cursor)),
        may_put: request.may("put_library_skill"),
    })
}

pub(super) async fn show_one(request: PageRequest) -> Result<String, Problem> {
    #[derive(Deserialize)]
    struct LibrarySkillWithFiles {
        #[serde(flatten)]
        skill: LibrarySkillRow,
        files: Vec<LibraryFileView>,
    }
    let named = json!({"name": request.path_value("name")});
    let (found, version): (LibrarySkillWithFiles, _) =
        request.read_versioned("get_library_skill", named).await?;
    let texts = found.files.iter().map(|file| file.content.as_ref());
    let bytes: Option<usize> = texts.map(|text| text.map(String::len)).sum();
    render(&LibrarySkillPage {
        page: Frame::new(&request, found.skill.name.as_str()),
        is_editable: bytes.is_some_and(|bytes| bytes <= MAX_EDITED_BYTES),
        skill: found.skill,
        files: found.files,
        version: version.unwrap_or_default(),
        may_put: request.may("put_library_skill"),
        may_delete: request.may("delete_library_skill"),
    })
}
