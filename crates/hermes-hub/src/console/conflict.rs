//! A form that was sent over a version which somebody else has changed since: both are shown, and what was sent can be
//! saved over the other.
//!
//! A form takes part with `if_match` and `current`: the operation that reads what the form changes, after a question mark
//! arguments that the form does not have itself, and after a colon the JSON pointer of the object whose members the form's
//! arguments are (`get_soul`, `get_tenant_cron:/job`). Of a list, it is the row whose `name` the form has.
//!
//! What has no version of its own is compared with `seen`: the digest of what the form was made from ([`digest_for`],
//! [`digest_rows`]).

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use hermes_config::to_hex;
use http::StatusCode;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{
    affected_tenants::{AffectedTenants, find_affected, try_change},
    diff::{DiffLine, diff_lines, plain_text},
    form_fields::{Fields, find_field},
    frame::Frame,
    pages::render,
    request::PageRequest,
};
use crate::{
    Problem,
    api_types::last4,
    operations::{ArgumentLocation, Effect, Gate, HttpMethod, Operation, table},
};

#[derive(Template)]
#[template(path = "conflict.html")]
struct ConflictPage<'a> {
    page: Frame,
    operation: &'a str,
    members: Vec<ConflictMember>,
    /// The form again, with the version that is there now.
    fields: Vec<(&'a str, &'a str)>,
    version: String,
    /// The same for what has no version.
    seen: Option<String>,
    next: &'a str,
    /// Nothing has gone wrong: it is a look at what would change.
    is_preview: bool,
    /// The tenants that this concerns, if it does.
    affected: Option<AffectedTenants>,
}

/// What differs in an argument.
struct ConflictMember {
    name: String,
    lines: Vec<DiffLine>,
}

/// What the form has sent.
#[derive(Clone, Copy)]
pub(super) struct SentForm<'a> {
    pub(super) operation: &'a Operation,
    pub(super) arguments: &'a Map<String, Value>,
    pub(super) fields: &'a Fields,
    /// As in the field `current`.
    pub(super) current: &'a str,
    pub(super) next: &'a str,
}

/// Arguments that are never shown, not even to whoever has typed them: only how they end.
const SECRETS: [&str; 3] = ["value", "token", "app_token"];

/// What a form is about, as it is now.
struct CurrentDocument {
    found: Value,
    version: Option<String>,
    /// The name of the row, where it is one of a list.
    row: Option<String>,
}

impl CurrentDocument {
    async fn read(request: &PageRequest, sent: &SentForm<'_>) -> Result<Self, Problem> {
        let (reader, place) = sent.current.split_once(':').unwrap_or((sent.current, ""));
        let (reader, query) = reader.split_once('?').unwrap_or((reader, ""));
        let row = table()
            .find(reader)
            .filter(|row| row.effect == Effect::Read)
            .ok_or_else(|| Problem::not_found("there is no such operation"))?;
        let named = url::form_urlencoded::parse(query.as_bytes());
        let named = named.map(|(name, value)| (name.into_owned(), Value::from(value.into_owned())));
        let wanted = row.input.arguments.iter().filter_map(|argument| {
            let value = sent.arguments.get(&argument.name)?;
            Some((argument.name.clone(), value.clone()))
        });
        let wanted: Map<String, Value> = wanted.chain(named).collect();
        let (found, version) = request
            .read_versioned::<Value>(reader, Value::Object(wanted))
            .await?;
        let found = found.pointer(place).cloned().unwrap_or_default();
        let name = sent.arguments.get("name").and_then(Value::as_str);
        Ok(match (found, name) {
            (Value::Array(rows), Some(name)) => Self {
                found: rows
                    .into_iter()
                    .find(|row| row["name"] == name)
                    .unwrap_or_default(),
                version,
                row: Some(name.to_owned()),
            },
            (found, _) => Self {
                found,
                version,
                row: None,
            },
        })
    }

    /// As the field `seen` has it.
    fn digest(&self, operation: &Operation) -> String {
        match &self.row {
            Some(name) => format!("{name} {}", digest(&self.found)),
            None => digest_for(operation.name, &self.found),
        }
    }
}

/// The digest of the members of a document that an operation changes; of all of it, if they have other names.
pub(super) fn digest_for(operation: &str, document: &Value) -> String {
    let arguments = table().find(operation).into_iter();
    let arguments = arguments.flat_map(|row| &row.input.arguments);
    let members = arguments.filter_map(|argument| {
        let member = document.get(&argument.rest_name)?;
        (argument.location != ArgumentLocation::Path).then(|| (argument.rest_name.clone(), member))
    });
    let members: std::collections::BTreeMap<String, &Value> = members.collect();
    if members.is_empty() {
        digest(document)
    } else {
        digest(&serde_json::to_value(members).unwrap_or_default())
    }
}

/// The digests of the rows of a list, each with its `name`.
pub(super) fn digest_rows(rows: &[Value]) -> String {
    let lines = rows.iter().map(|row| {
        let name = row["name"].as_str().unwrap_or_default();
        format!("{name} {}", digest(row))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn digest(document: &Value) -> String {
    to_hex(&Sha256::digest(document.to_string())[..12])
}

/// Whether what a form is about is no longer what the form was made from.
pub(super) async fn has_changed(
    request: &PageRequest,
    sent: &SentForm<'_>,
    seen: &str,
) -> Result<bool, Problem> {
    let current = CurrentDocument::read(request, sent).await?;
    let now = current.digest(sent.operation);
    let Some(name) = &current.row else {
        return Ok(now != seen);
    };
    let mut lines = seen.lines();
    let shown = lines.find(|line| line.split_once(' ').is_some_and(|(row, _)| row == name));
    // A row that was not shown was not there.
    Ok(match shown {
        Some(shown) => shown != now,
        None => !current.found.is_null(),
    })
}

pub(super) async fn show(request: &PageRequest, sent: SentForm<'_>) -> Result<Response, Problem> {
    let page = compare_page(request, sent, None).await?;
    Ok((StatusCode::PRECONDITION_FAILED, Html(render(&page)?)).into_response())
}

/// What a form would change, with the version that its page has shown. What could not be saved is refused now; nothing is
/// changed yet.
pub(super) async fn preview(
    request: &PageRequest,
    sent: SentForm<'_>,
    version: String,
) -> Result<Response, Problem> {
    let tried = try_change(request, sent.operation, sent.arguments).await?;
    let mut page = compare_page(request, sent, Some(version)).await?;
    if sent.operation.gate == Gate::WholeHub {
        let tried = tried.unwrap_or_default();
        page.affected = find_affected(request, sent.arguments, &tried).await;
    }
    Ok(Html(render(&page)?).into_response())
}

async fn compare_page<'a>(
    request: &PageRequest,
    sent: SentForm<'a>,
    shown: Option<String>,
) -> Result<ConflictPage<'a>, Problem> {
    let current = CurrentDocument::read(request, &sent).await?;
    let members = compare(&sent, &current.found);
    let own = ["if_match", "csrf", "once", "preview", "seen"];
    let fields = sent.fields.iter();
    let fields = fields.filter(|(name, _)| !own.contains(&name.as_str()));
    let shown_seen = find_field(sent.fields, "seen");
    let seen = shown_seen.map(|seen| match &shown {
        // What is applied is compared with what its page has shown.
        Some(_) => seen.to_owned(),
        None => current.digest(sent.operation),
    });
    let mut frame = Frame::new(
        request,
        request.texts.get(match shown {
            Some(_) => "preview.title",
            None => "conflict.title",
        }),
    );
    // It is not read again: it is the answer to a form.
    frame.live = None;
    Ok(ConflictPage {
        is_preview: shown.is_some(),
        affected: None,
        page: frame,
        operation: sent.operation.name,
        members,
        fields: fields
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect(),
        version: shown.or(current.version).unwrap_or_default(),
        seen,
        next: sent.next,
    })
}

/// Each argument that differs from what is there now.
fn compare(sent: &SentForm<'_>, found: &Value) -> Vec<ConflictMember> {
    let input = &sent.operation.input;
    // A document of a tenant leaves alone what it does not name.
    let is_patch =
        sent.operation.method() == HttpMethod::Patch || sent.operation.name == "put_manifest";
    let mut members = Vec::new();
    for argument in &input.arguments {
        let Some(mine) = sent.arguments.get(&argument.name) else {
            continue;
        };
        if argument.location == ArgumentLocation::Path {
            continue;
        }
        if SECRETS.contains(&argument.name.as_str()) {
            let (mine, theirs) = (ending_of(mine), shown_ending(found));
            add_member(&mut members, &argument.rest_name, &mine, &theirs);
            continue;
        }
        if let Some(files) = files_by_path(mine) {
            let there = found.get(&argument.rest_name);
            let there = there.and_then(files_by_path).unwrap_or_default();
            for (path, mine) in files {
                let theirs = there.get(path).copied().or_else(|| found.get("content"));
                add_member(&mut members, path, mine, theirs.unwrap_or(&Value::Null));
            }
            continue;
        }
        let is_whole = input.whole_body == Some(argument.name.as_str());
        let theirs = match found.get(&argument.rest_name) {
            _ if is_whole => Some(found),
            theirs => theirs.or_else(|| found.get(&argument.name)),
        };
        let theirs = theirs.cloned().unwrap_or_default();
        let theirs = if is_patch {
            named_in(mine, &theirs)
        } else {
            theirs
        };
        match (mine, &theirs) {
            // Members of a patch are told apart.
            (Value::Object(parts), Value::Object(others)) if is_patch => {
                for (name, mine) in parts {
                    let theirs = others.get(name).unwrap_or(&Value::Null);
                    add_member(&mut members, name, mine, theirs);
                }
            }
            _ => add_member(&mut members, &argument.rest_name, mine, &theirs),
        }
    }
    members
}

/// Files with their texts, as arguments and replies have them.
fn files_by_path(value: &Value) -> Option<std::collections::BTreeMap<&str, &Value>> {
    let files = value.as_array().filter(|files| !files.is_empty())?;
    let files = files
        .iter()
        .map(|file| Some((file.get("path")?.as_str()?, file.get("content")?)));
    files.collect()
}

/// How a secret ends that was typed.
fn ending_of(secret: &Value) -> Value {
    let end = secret.as_str().and_then(last4).unwrap_or_default();
    format!("…{end}").into()
}

/// How the secret ends that is there now, and since when.
fn shown_ending(found: &Value) -> Value {
    let text = |name: &str| found[name].as_str();
    let Some(end) = text("last4").or_else(|| text("tokenLast4")) else {
        return text("updatedAt").map_or(Value::Null, |since| format!("… ({since})").into());
    };
    let since = text("updatedAt").map(|since| format!(" ({since})"));
    format!("…{end}{}", since.unwrap_or_default()).into()
}

fn add_member(members: &mut Vec<ConflictMember>, name: &str, mine: &Value, theirs: &Value) {
    let lines = diff_lines(&ended(&plain_text(theirs)), &ended(&plain_text(mine)));
    if !lines.is_empty() {
        members.push(ConflictMember {
            name: name.to_owned(),
            lines,
        });
    }
}

/// A last line without an end is not another line.
fn ended(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') {
        text.to_owned()
    } else {
        format!("{text}\n")
    }
}

/// The members that a patch names. A schedule is shown as it is written.
fn named_in(patch: &Value, found: &Value) -> Value {
    match (patch, found) {
        (Value::Object(patch), Value::Object(found)) => {
            let members = patch.iter().map(|(name, value)| {
                let found = found.get(name).unwrap_or(&Value::Null);
                (name.clone(), named_in(value, found))
            });
            Value::Object(members.collect())
        }
        (Value::String(_), Value::Object(found)) => found
            .get("display")
            .cloned()
            .unwrap_or_else(|| Value::Object(found.clone())),
        _ => found.clone(),
    }
}
