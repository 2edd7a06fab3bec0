//! Documents of tenants, as they are written: YAML or JSON, one or several in a file. What they name on this machine is
//! read here, and their mistakes are told with line and column.

use std::path::Path;

use hermes_config::{find_yaml_key, read_yaml};
use hermes_hub::operations::manifest_members::{
    LocalMembers, find_pointer_in_yaml, find_wrong_member, spell_variables,
};
use serde_json::{Map, Value};

use crate::{
    commands::hub::client::upload::{content_member, list_files, read_bytes},
    failure::Failure,
};

/// A document that can be sent.
pub(super) struct TenantDocument<'a> {
    pub(super) tenant: String,
    pub(super) manifest: Map<String, Value>,
    source: DocumentText<'a>,
}

impl TenantDocument<'_> {
    /// Says where in the file something is that the Hub refuses.
    pub(super) fn add_place(&self, mut failure: Failure) -> Failure {
        let member = failure.member.as_deref();
        let place = member.and_then(|member| find_pointer_in_yaml(self.source.text, member));
        if let Some((line, column)) = place {
            failure.message = format!(
                "`{}`, line {}, column {column}: {}",
                self.source.file,
                line + self.source.lines_before,
                failure.message
            );
        }
        failure
    }
}

/// One document of a file, with what is needed to say where something is.
#[derive(Clone, Copy)]
struct DocumentText<'a> {
    file: &'a str,
    text: &'a str,
    /// Lines of the file before it.
    lines_before: usize,
}

/// Reads all documents of a file. Relative paths in them begin at `base`.
pub(super) fn read_documents<'a>(
    file: &'a str,
    text: &'a str,
    base: &Path,
) -> Result<Vec<TenantDocument<'a>>, Failure> {
    let mut documents = Vec::new();
    for source in split_documents(file, text) {
        let document = read_yaml(source.text).map_err(|error| {
            let line = usize::try_from(error.line).unwrap_or(1) + source.lines_before;
            Failure::usage(format!(
                "`{file}`, line {line}, column {}: {}",
                error.column, error.reason
            ))
        })?;
        match document {
            Value::Object(members) if members.is_empty() => {}
            Value::Object(members) => documents.push(source.prepare(members, base)?),
            _ => return Err(source.failure(&[], "a document is a mapping, such as `id: acme`")),
        }
    }
    if documents.is_empty() {
        return Err(Failure::usage(format!("`{file}` has no document")));
    }
    Ok(documents)
}

/// The documents between lines `---`.
fn split_documents<'a>(file: &'a str, text: &'a str) -> Vec<DocumentText<'a>> {
    let mut documents = Vec::new();
    let (mut start, mut lines_before, mut at) = (0, 0, 0);
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let is_marker = line.trim_end() == "---" || line.starts_with("--- ");
        if is_marker && !text[start..at].trim().is_empty() {
            documents.push(DocumentText {
                file,
                text: &text[start..at],
                lines_before,
            });
            (start, lines_before) = (at, number);
        }
        at += line.len();
    }
    documents.push(DocumentText {
        file,
        text: &text[start..],
        lines_before,
    });
    documents
}

impl<'a> DocumentText<'a> {
    fn prepare(
        self,
        mut manifest: Map<String, Value>,
        base: &Path,
    ) -> Result<TenantDocument<'a>, Failure> {
        spell_variables(&mut manifest);
        self.check_members(&manifest)?;
        let Some(tenant) = manifest
            .get("id")
            .and_then(Value::as_str)
            .map(str::to_owned)
        else {
            return Err(self.failure(&[], "a document needs an `id`, the tenant's"));
        };
        self.resolve_variables(&mut manifest)?;
        if let Some(skills) = manifest.get_mut("skills").and_then(Value::as_array_mut) {
            for skill in skills.iter_mut().filter_map(Value::as_object_mut) {
                if let Some(Value::String(path)) = skill.shift_remove("path") {
                    skill.insert("files".into(), list_files(&base.join(path))?.into());
                }
            }
        }
        if let Some(files) = manifest.get_mut("files").and_then(Value::as_array_mut) {
            for file in files.iter_mut().filter_map(Value::as_object_mut) {
                if let Some(Value::String(path)) = file.shift_remove("from") {
                    file.extend([content_member(read_bytes(&base.join(path))?)]);
                }
            }
        }
        Ok(TenantDocument {
            tenant,
            manifest,
            source: self,
        })
    }

    /// Resolves `${env:NAME}` in variables, by the environment of this command.
    fn resolve_variables(&self, manifest: &mut Map<String, Value>) -> Result<(), Failure> {
        let Some(env) = manifest.get_mut("env").and_then(Value::as_object_mut) else {
            return Ok(());
        };
        for (name, value) in env {
            let Value::String(text) = value else {
                continue;
            };
            let resolved = resolve_references(text).map_err(|missing| {
                let place = ["env".to_owned(), name.clone()];
                self.failure(
                    &place,
                    &format!("the variable `{missing}` is not set where this command runs"),
                )
            })?;
            *value = resolved.into();
        }
        Ok(())
    }

    /// Refuses members that no document has.
    fn check_members(&self, manifest: &Map<String, Value>) -> Result<(), Failure> {
        match find_wrong_member(manifest, LocalMembers::Allowed) {
            None => Ok(()),
            Some(wrong) => {
                let place = wrong.find_in_yaml(self.text);
                Err(self.failure_at(place, &wrong.reason))
            }
        }
    }

    fn failure(&self, path: &[String], reason: &str) -> Failure {
        let (line, column) = find_yaml_key(self.text, path)
            .filter(|_| !path.is_empty())
            .unwrap_or((1, 1));
        self.failure_at((line, column), reason)
    }

    fn failure_at(&self, (line, column): (usize, usize), reason: &str) -> Failure {
        Failure::usage(format!(
            "`{}`, line {}, column {column}: {reason}",
            self.file,
            line + self.lines_before
        ))
    }
}

/// The text with every `${env:NAME}` replaced, or the first name that has no value.
fn resolve_references(text: &str) -> Result<String, String> {
    let mut resolved = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${env:") {
        let Some((name, after)) = after.split_once('}') else {
            break;
        };
        let value = std::env::var(name).map_err(|_| name.to_owned())?;
        resolved.push_str(before);
        resolved.push_str(&value);
        rest = after;
    }
    resolved.push_str(rest);
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        match read_documents("a.yaml", text, Path::new(".")) {
            Ok(_) => panic!("{text} was taken"),
            Err(failure) => failure.message,
        }
    }

    #[test]
    fn several_documents_are_told_apart_and_keep_their_lines() {
        let text = "# two tenants\nid: a\n---\nid: b\nname: B\n---\n";
        let documents = read_documents("a.yaml", text, Path::new(".")).unwrap();
        let tenants: Vec<_> = documents.iter().map(|document| &*document.tenant).collect();
        assert_eq!(tenants, ["a", "b"]);
        let message = refused("id: a\n---\nid: b\nnmae: B\n");
        assert!(message.contains("line 4, column 1"), "{message}");
        assert!(message.contains("did you mean `name`?"), "{message}");
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        for (text, place) in [
            ("id: a\nskils: []\n", "line 2, column 1"),
            (
                "id: a\nskills:\n  - { name: x, pth: y }\n",
                "line 3, column 16",
            ),
            ("id: a\nstorage: { quota: 1 }\n", "line 2, column 12"),
            ("id: a\nname: [x]\n", "line 2, column 1"),
            ("id: a\nmodel: { modle: x }\n", "line 2, column 10"),
            (
                "id: a\nplatforms: { telegram: { tokn: x } }\n",
                "line 2, column 26",
            ),
            (
                "id: a\nenv: { KEY: \"${env:NOT_SET_ANYWHERE_0}\" }\n",
                "line 2, column 8",
            ),
            ("name: x\n", "line 1, column 1"),
            ("id: [a\n", "line"),
        ] {
            let message = refused(text);
            assert!(message.contains(place), "{text}: {message}");
        }
        assert!(refused("").contains("no document"));
    }

    #[test]
    fn text_without_references_stays_as_it_is() {
        assert_eq!(resolve_references("a ${b} $c").unwrap(), "a ${b} $c");
        assert_eq!(resolve_references("${env:").unwrap(), "${env:");
        assert_eq!(
            resolve_references("${env:NOT_SET_0}").unwrap_err(),
            "NOT_SET_0"
        );
    }
}
