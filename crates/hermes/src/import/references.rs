//! `${…}` forms that other programs know and we do not.

use std::path::{MAIN_SEPARATOR_STR, Path};

use serde_json::Value;

use super::{
    FileContext,
    variables::{Variable, VariableKind, is_variable_name, variable_name},
};

/// A question VS Code asks when `${input:ID}` is needed.
#[derive(Debug, Clone)]
pub(super) struct VsCodeInput {
    pub(super) id: String,
    pub(super) description: Option<String>,
    pub(super) default: Option<String>,
}

/// Rewrites the references of one server and gathers what comes of it.
pub(super) struct ReferenceRewriter<'a> {
    context: &'a FileContext,
    pub(super) notes: Vec<String>,
    pub(super) variables: Vec<Variable>,
}

impl<'a> ReferenceRewriter<'a> {
    pub(super) fn new(context: &'a FileContext) -> Self {
        Self {
            context,
            notes: Vec::new(),
            variables: Vec::new(),
        }
    }

    /// Rewrites every text in `value`.
    pub(super) fn rewrite(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.rewritten(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.rewrite(value)),
            Value::Object(members) => members.values_mut().for_each(|value| self.rewrite(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn rewritten(&mut self, text: &str) -> String {
        let mut ours = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            ours.push_str(before);
            let Some(end) = closing_brace(after) else {
                ours.push_str("${");
                rest = after;
                break;
            };
            ours.push_str(&self.replacement(&after[..end]));
            rest = &after[end + 1..];
        }
        ours + rest
    }

    /// What stands for `${inner}` in our entry.
    fn replacement(&mut self, inner: &str) -> String {
        if let Some(id) = inner.strip_prefix("input:") {
            return self.input(id);
        }
        if let Some((name, default)) = inner.split_once(":-")
            && is_variable_name(name)
        {
            return self.with_default(name, default);
        }
        let project = self.context.project.as_deref();
        let known = match inner {
            "userHome" => Some("${HOME}".to_owned()),
            "pathSeparator" | "/" => Some(MAIN_SEPARATOR_STR.to_owned()),
            "workspaceFolder" | "workspaceRoot" => project.map(|path| path.display().to_string()),
            "workspaceFolderBasename" => {
                let name = project.and_then(Path::file_name);
                name.map(|name| name.to_string_lossy().into_owned())
            }
            _ => None,
        };
        if let Some(value) = known {
            if inner.starts_with("workspace") {
                self.note(format!("`${{{inner}}}` is now {value}"));
            }
            return value;
        }
        let theirs = ["workspace", "command:", "config:"];
        if theirs.iter().any(|start| inner.starts_with(start)) {
            self.note(format!(
                "`${{{inner}}}` means nothing here: put a value in its place"
            ));
        }
        format!("${{{inner}}}")
    }

    fn input(&mut self, id: &str) -> String {
        let name = variable_name(&[id]);
        let input = self.context.inputs.iter().find(|input| input.id == id);
        if let Some(default) = input.and_then(|input| input.default.clone()) {
            self.remember(&name, &default);
        } else {
            let question = input.and_then(|input| input.description.as_deref());
            let question = question
                .map(|question| format!(": {question}"))
                .unwrap_or_default();
            self.note(format!("set `{name}` in `.env`{question}"));
        }
        format!("${{{name}}}")
    }

    /// `${NAME:-default}`: the default moves to `.env`, where the user can change it.
    fn with_default(&mut self, name: &str, default: &str) -> String {
        if default.is_empty() {
            // An empty variable would count as unset here and stay as written.
            self.note(format!("`{name}` was optional and has been left out"));
            return String::new();
        }
        if default.contains("${") {
            self.note(format!(
                "set `{name}` in `.env`: its default refers to other variables"
            ));
        } else {
            self.remember(name, default);
        }
        format!("${{{name}}}")
    }

    fn remember(&mut self, name: &str, value: &str) {
        let variable = Variable {
            name: name.to_owned(),
            value: value.to_owned(),
            kind: VariableKind::Default,
        };
        if !self.variables.contains(&variable) {
            self.note(format!("`{name}` gets its default in `.env`"));
            self.variables.push(variable);
        }
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

/// The `}` that ends a reference, past any reference within.
fn closing_brace(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (position, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => return Some(position),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context(project: Option<&str>) -> FileContext {
        FileContext {
            project: project.map(Into::into),
            inputs: vec![VsCodeInput {
                id: "api-key".into(),
                description: Some("Key of the service".into()),
                default: None,
            }],
        }
    }

    #[test]
    fn plain_references_stay_as_they_are() {
        let context = context(None);
        let mut references = ReferenceRewriter::new(&context);
        for text in [
            "${A}",
            "x ${env:B} y",
            "no reference",
            "${unclosed",
            "a } b",
        ] {
            assert_eq!(references.rewritten(text), text);
        }
        assert_eq!(references.notes, [""; 0]);
    }

    #[test]
    fn an_input_becomes_a_variable_to_be_set() {
        let context = context(None);
        let mut references = ReferenceRewriter::new(&context);
        assert_eq!(
            references.rewritten("Bearer ${input:api-key}"),
            "Bearer ${API_KEY}"
        );
        assert_eq!(
            references.notes,
            ["set `API_KEY` in `.env`: Key of the service"]
        );
    }

    #[test]
    fn a_default_goes_to_env() {
        let context = context(None);
        let mut references = ReferenceRewriter::new(&context);
        assert_eq!(
            references.rewritten("${LEVEL:-info}/${LEVEL:-info}"),
            "${LEVEL}/${LEVEL}"
        );
        assert_eq!(references.variables.len(), 1);
        assert_eq!(references.variables[0].value, "info");
        assert_eq!(references.rewritten("a${EMPTY:-}b"), "ab");
        assert_eq!(references.rewritten("${A:-${B}}"), "${A}");
        assert_eq!(references.variables.len(), 1);
    }

    #[test]
    fn the_workspace_is_the_project_where_there_is_one() {
        let inside = context(Some("/src/app"));
        let mut references = ReferenceRewriter::new(&inside);
        assert_eq!(references.rewritten("${workspaceFolder}/x"), "/src/app/x");
        assert_eq!(references.rewritten("${workspaceFolderBasename}"), "app");
        assert_eq!(references.rewritten("${userHome}/y"), "${HOME}/y");
        assert_eq!(
            references.notes,
            [
                "`${workspaceFolder}` is now /src/app",
                "`${workspaceFolderBasename}` is now app"
            ]
        );

        let outside = context(None);
        let mut references = ReferenceRewriter::new(&outside);
        assert_eq!(
            references.rewritten("${workspaceFolder}/x"),
            "${workspaceFolder}/x"
        );
        assert!(references.notes[0].contains("put a value in its place"));
    }
}
