//! The Hub's own library of skills, from which tenants take.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    install::read_package,
    package::{NewSkillFile, SkillPackage},
};
use crate::{
    Problem,
    api_types::{Time, Via},
    service::{
        ALL_PAGE_SIZE,
        call::{Call, Reply, etag},
        page_request, run_blocking,
    },
    storage::state::{LibrarySkillRecord, Page},
};

/// Which part of the library.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListLibrary {
    /// How many at most, 1 to 500.
    limit: Option<u32>,
    /// The `nextCursor` of the page before.
    cursor: Option<String>,
}

/// A skill of the library.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LibrarySkillRef {
    /// The skill's name.
    name: String,
}

/// A skill for the library.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PutLibrarySkill {
    /// The skill's name: small letters, digits and hyphens.
    name: String,
    /// Its files, among them `SKILL.md`.
    files: Option<Vec<NewSkillFile>>,
    /// Its directory as a `tar` or `tar.zst` in base64, instead of `files`. Over REST, it can be the body itself.
    archive: Option<String>,
}

/// A skill of the library, as it is listed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LibrarySkill {
    name: String,
    description: String,
    version: Option<String>,
    file_count: u64,
    bytes: u64,
    revision: u64,
    updated_at: Time,
    updated_by: String,
}

/// Skills of the library.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LibrarySkillList {
    skills: Vec<LibrarySkill>,
    next_cursor: Option<String>,
}

/// A file of a skill in the library.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LibraryFile {
    path: String,
    size: u64,
    /// Its text; absent if it is not text.
    content: Option<String>,
}

/// A skill of the library with its files.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LibrarySkillDetails {
    #[serde(flatten)]
    skill: LibrarySkill,
    files: Vec<LibraryFile>,
}

impl From<LibrarySkillRecord> for LibrarySkill {
    fn from(record: LibrarySkillRecord) -> Self {
        Self {
            name: record.name,
            description: record.description,
            version: record.version,
            file_count: record.files,
            bytes: record.bytes,
            revision: record.revision,
            updated_at: record.updated_at,
            updated_by: record.updated_by,
        }
    }
}

pub(crate) async fn list(call: Call, input: ListLibrary) -> Result<Reply, Problem> {
    let mut page = if call.via == Via::Mcp {
        Page::first(ALL_PAGE_SIZE)
    } else {
        page_request(input.limit, input.cursor)?
    };
    let mut skills = Vec::new();
    let next_cursor = loop {
        let found = call.hub.state().library_skills(&page).await?;
        skills.extend(found.items.into_iter().map(LibrarySkill::from));
        match found.next {
            Some(next) if call.via == Via::Mcp => page = Page::after(ALL_PAGE_SIZE, next),
            next => break next,
        }
    };
    Reply::json(&LibrarySkillList {
        skills,
        next_cursor,
    })
}

pub(crate) async fn get(call: Call, input: LibrarySkillRef) -> Result<Reply, Problem> {
    let found = call.hub.state().library_skill(&input.name).await?;
    let (record, archive) = found.ok_or_else(|| not_in_library(&input.name))?;
    let name = record.name.clone();
    let package = run_blocking(move || SkillPackage::from_archive(&name, &archive)).await?;
    let files = package
        .into_files()
        .into_iter()
        .map(|(path, content)| LibraryFile {
            path: path.as_str().to_owned(),
            size: content.len() as u64,
            content: String::from_utf8(content).ok(),
        })
        .collect();
    let version = etag(record.revision);
    let skill = record.into();
    Ok(Reply::json(&LibrarySkillDetails { skill, files })?.etag(version))
}

pub(crate) async fn put(call: Call, input: PutLibrarySkill) -> Result<Reply, Problem> {
    let package = read_package(
        &call,
        &input.name,
        input.files,
        input.archive.as_deref(),
        false,
    )
    .await?;
    let skill = run_blocking(move || package.into_library_skill()).await?;
    let expected = expected_revision(&call, &input.name).await?;
    let by = call.principal().token.to_string();
    let stored = call
        .hub
        .state()
        .put_library_skill(skill, &by, expected, call.entry.clone())
        .await?;
    call.hub.provided_skills_changed();
    let status = if stored.revision == 1 { 201 } else { 200 };
    let version = etag(stored.revision);
    Ok(Reply::json(&LibrarySkill::from(stored))?
        .etag(version)
        .status(status))
}

pub(crate) async fn delete(call: Call, input: LibrarySkillRef) -> Result<Reply, Problem> {
    let expected = expected_revision(&call, &input.name).await?;
    let deleted = call
        .hub
        .state()
        .delete_library_skill(&input.name, expected, call.entry.clone())
        .await;
    deleted.map_err(|error| match error {
        crate::storage::state::StateError::NotFound { .. } => not_in_library(&input.name),
        error => error.into(),
    })?;
    Ok(Reply::empty())
}

/// The revision that `If-Match` names, if the caller sent it.
async fn expected_revision(call: &Call, name: &str) -> Result<Option<u64>, Problem> {
    if call.if_match.is_none() {
        return Ok(None);
    }
    let known = call.hub.state().library_skill(name).await?;
    let Some((record, _)) = known else {
        return Err(crate::service::call::version_conflict());
    };
    call.check_version(&etag(record.revision))?;
    Ok(Some(record.revision))
}

fn not_in_library(name: &str) -> Problem {
    Problem::not_found(format!(
        "the library has no skill `{}`",
        name.chars().take(80).collect::<String>()
    ))
}
