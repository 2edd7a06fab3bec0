//! From a manifest and the user's answers to an entry for `mcp_servers`, and what has to run before a server from a
//! repository can be used.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

use super::{CatalogError, INSTALL_DIR, Manifest, manifest::variables_in};
use crate::import::{Variable, VariableKind};

/// An entry to be saved, and what `.env` has to say for it.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedEntry {
    /// The entry as it will be written; secrets are `${NAME}`.
    pub entry: Value,
    /// The secrets.
    pub variables: Vec<Variable>,
}

/// Fills a manifest in. `answers` are by the prompts' variables; an empty answer counts as none. `install_dir` is needed
/// for servers that are installed from their repository.
pub fn prepare_entry(
    manifest: &Manifest,
    answers: &BTreeMap<String, String>,
    install_dir: Option<&Path>,
) -> Result<PreparedEntry, CatalogError> {
    let (filling, variables) = collect_values(manifest, answers, install_dir)?;
    let transport = &manifest.transport;
    let mut entry = Map::new();
    if let Some(command) = transport
        .command
        .as_deref()
        .and_then(|text| filling.fill_text(text))
    {
        entry.insert("command".to_owned(), command.into());
        let args: Vec<_> = transport
            .args
            .iter()
            .filter_map(|arg| filling.fill_text(arg))
            .collect();
        insert_list(&mut entry, "args", args);
        insert_texts(&mut entry, "env", &transport.env, &filling);
    }
    if let Some(url) = transport
        .url
        .as_deref()
        .and_then(|text| filling.fill_text(text))
    {
        entry.insert("url".to_owned(), url.into());
        insert_texts(&mut entry, "headers", &transport.headers, &filling);
    }
    if let Some(auth) = &transport.auth {
        entry.insert("auth".to_owned(), auth.as_str().into());
    }
    let mut tools = Map::new();
    if let Some(include) = &manifest.tools.include {
        tools.insert("include".to_owned(), json!(include));
    }
    if let Some(exclude) = &manifest.tools.exclude {
        tools.insert("exclude".to_owned(), json!(exclude));
    }
    if !tools.is_empty() {
        entry.insert("tools".to_owned(), tools.into());
    }
    Ok(PreparedEntry {
        entry: entry.into(),
        variables,
    })
}

/// What stands for each variable; `None` for an optional one without an answer.
struct TemplateValues<'a>(BTreeMap<&'a str, Option<String>>);

impl TemplateValues<'_> {
    /// The text filled in, or nothing if it speaks of something the user left open.
    fn fill_text(&self, template: &str) -> Option<String> {
        let mut text = template.to_owned();
        for name in variables_in(template) {
            let value = self.0.get(name)?.as_ref()?;
            text = text.replace(&format!("${{{name}}}"), value);
        }
        Some(text)
    }
}

fn collect_values<'a>(
    manifest: &'a Manifest,
    answers: &BTreeMap<String, String>,
    install_dir: Option<&Path>,
) -> Result<(TemplateValues<'a>, Vec<Variable>), CatalogError> {
    let mut filling = BTreeMap::new();
    let mut variables = Vec::new();
    for prompt in &manifest.prompts {
        let answer = answers
            .get(&prompt.variable)
            .filter(|answer| !answer.is_empty());
        let value = answer.or(prompt.default.as_ref());
        if value.is_none() && prompt.required {
            return Err(CatalogError::Unanswered {
                variable: prompt.variable.clone(),
                question: prompt.question.clone(),
            });
        }
        let value = value.map(|value| {
            if !prompt.secret {
                return value.clone();
            }
            let variable = Variable {
                name: prompt.variable.clone(),
                value: value.clone(),
                kind: VariableKind::Value,
            };
            let reference = variable.reference();
            variables.push(variable);
            reference
        });
        filling.insert(prompt.variable.as_str(), value);
    }
    if manifest.install.is_some() {
        let Some(directory) = install_dir else {
            return Err(CatalogError::NoInstallDirectory {
                id: manifest.id.clone(),
            });
        };
        filling.insert(INSTALL_DIR, Some(directory.display().to_string()));
    }
    Ok((TemplateValues(filling), variables))
}

fn insert_list(entry: &mut Map<String, Value>, key: &str, list: Vec<String>) {
    if !list.is_empty() {
        entry.insert(key.to_owned(), list.into());
    }
}

fn insert_texts(
    entry: &mut Map<String, Value>,
    key: &str,
    texts: &BTreeMap<String, String>,
    filling: &TemplateValues<'_>,
) {
    let filled = texts
        .iter()
        .filter_map(|(name, text)| Some((name.clone(), filling.fill_text(text)?.into())));
    let filled: Map<_, _> = filled.collect();
    if !filled.is_empty() {
        entry.insert(key.to_owned(), filled.into());
    }
}

/// One program to run to its end. There is no shell between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallStep {
    pub program: String,
    pub args: Vec<String>,
    /// Where it runs; `None`: anywhere.
    pub directory: Option<PathBuf>,
}

/// The steps that put a server into `install_dir`, which must not exist yet. None for a server that is a package.
pub fn install_steps(manifest: &Manifest, install_dir: &Path) -> Vec<InstallStep> {
    let Some(install) = &manifest.install else {
        return Vec::new();
    };
    let directory = install_dir.display().to_string();
    let git = |args: &[&str], directory: Option<&Path>| InstallStep {
        program: "git".to_owned(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        directory: directory.map(Path::to_owned),
    };
    let clone = git(&["clone", "--", &install.repository, &directory], None);
    let checkout = git(
        &["checkout", "--detach", &install.reference],
        Some(install_dir),
    );
    let commands = install.commands.iter().filter_map(|command| {
        let mut words = command
            .iter()
            .map(|word| word.replace(&format!("${{{INSTALL_DIR}}}"), &directory));
        Some(InstallStep {
            program: words.next()?,
            args: words.collect(),
            directory: Some(install_dir.to_owned()),
        })
    });
    [clone, checkout].into_iter().chain(commands).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "\
version: 1
id: notes
title: Notes
description: Keeps notes
homepage: https://example.com
transport:
  command: ${INSTALL_DIR}/bin/notes
  args: [--root, '${NOTES_ROOT}', '--zone=${ZONE}']
  env: { NOTES_TOKEN: '${NOTES_TOKEN}', NOTES_PROXY: '${PROXY}' }
prompts:
  - { variable: NOTES_TOKEN, question: Token?, secret: true, required: true }
  - { variable: NOTES_ROOT, question: Where?, required: true, default: /srv/notes }
  - { variable: ZONE, question: Zone? }
  - { variable: PROXY, question: Proxy? }
tools: { exclude: [delete_all] }
install: { repository: 'https://example.com/notes.git', reference: v1.2.0, commands: [[make]] }
";

    fn answers<const N: usize>(answers: [(&str, &str); N]) -> BTreeMap<String, String> {
        answers
            .map(|(variable, answer)| (variable.to_owned(), answer.to_owned()))
            .into()
    }

    #[test]
    fn a_secret_goes_to_env_and_its_reference_to_the_child() {
        let manifest = Manifest::parse(MANIFEST).unwrap();
        let answers = answers([
            ("NOTES_TOKEN", "hunter22"),
            ("PROXY", "http://p"),
            ("ZONE", ""),
        ]);
        let prepared = prepare_entry(&manifest, &answers, Some(Path::new("/opt/notes"))).unwrap();
        assert_eq!(
            prepared.entry,
            json!({
                "command": "/opt/notes/bin/notes",
                "args": ["--root", "/srv/notes"],
                "env": {"NOTES_PROXY": "http://p", "NOTES_TOKEN": "${NOTES_TOKEN}"},
                "tools": {"exclude": ["delete_all"]},
            })
        );
        let variables: Vec<_> = prepared
            .variables
            .iter()
            .map(|v| (v.name.as_str(), v.value.as_str()))
            .collect();
        assert_eq!(variables, [("NOTES_TOKEN", "hunter22")]);
    }

    #[test]
    fn a_required_answer_and_the_directory_are_asked_for() {
        let manifest = Manifest::parse(MANIFEST).unwrap();
        let error = prepare_entry(&manifest, &answers([]), Some(Path::new("/x"))).unwrap_err();
        assert!(
            matches!(error, CatalogError::Unanswered { variable, .. } if variable == "NOTES_TOKEN")
        );
        let error = prepare_entry(&manifest, &answers([("NOTES_TOKEN", "t")]), None).unwrap_err();
        assert!(matches!(error, CatalogError::NoInstallDirectory { .. }));
    }

    const INSTALL_MANIFEST: &str = "\
version: 1
id: notes
title: Notes
description: Keeps notes
homepage: https://example.com
transport: { command: '${INSTALL_DIR}/notes' }
install:
  repository: https://example.com/notes.git
  reference: v1.2.0
  commands: [[cargo, build, --release], [cp, target/release/notes, '${INSTALL_DIR}/notes']]
";

    #[test]
    fn the_pinned_version_is_cloned_and_built_in_place() {
        let manifest = Manifest::parse(INSTALL_MANIFEST).unwrap();
        let steps = install_steps(&manifest, Path::new("/opt/my notes"));
        let lines: Vec<_> = steps
            .iter()
            .map(|step| format!("{} {}", step.program, step.args.join(" ")))
            .collect();
        assert_eq!(
            lines,
            [
                "git clone -- https://example.com/notes.git /opt/my notes",
                "git checkout --detach v1.2.0",
                "cargo build --release",
                "cp target/release/notes /opt/my notes/notes",
            ]
        );
        assert_eq!(steps[0].directory, None);
        assert!(
            steps[1..]
                .iter()
                .all(|step| step.directory.as_deref() == Some(Path::new("/opt/my notes")))
        );
    }

    #[test]
    fn a_package_needs_no_steps() {
        let manifest = INSTALL_MANIFEST
            .split("install:")
            .next()
            .unwrap()
            .replace("${INSTALL_DIR}/", "");
        assert_eq!(
            install_steps(&Manifest::parse(&manifest).unwrap(), Path::new("/x")),
            []
        );
    }
}
