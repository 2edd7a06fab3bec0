//! The manifest of one server, version 1, and the rules it has to keep.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_saphyr::{DefaultMessageFormatter, MessageFormatter as _};

/// Stands for the directory a server was installed in.
pub const INSTALL_DIR: &str = "INSTALL_DIR";

/// How a well-known server is added.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// 1.
    pub version: u32,
    /// What the user says, and the server's name unless another is chosen.
    pub id: String,
    /// Its name in a list.
    pub title: String,
    /// What it does, in one line.
    pub description: String,
    /// Where to read on.
    pub homepage: String,
    /// How it is reached. `${VARIABLE}` stands for an answer.
    pub transport: Transport,
    /// What the user is asked.
    #[serde(default)]
    pub prompts: Vec<ManifestPrompt>,
    /// Which tools to offer.
    #[serde(default)]
    pub tools: ToolChoice,
    /// A server that is not a package: its repository and how to build it.
    #[serde(default)]
    pub install: Option<GitInstall>,
}

/// The keys of `mcp_servers.<name>` that reach a server. Exactly one of `command` and `url` is there.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transport {
    /// The executable of a local server.
    pub command: Option<String>,
    #[serde(default)]
    pub args: Vec<String>,
    /// Its environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The address of a remote server.
    pub url: Option<String>,
    /// Sent with every request.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// `oauth` for a server that has its users log in.
    pub auth: Option<String>,
}

impl Transport {
    /// Every text that may hold a `${VARIABLE}`.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let single = self.command.iter().chain(&self.url).chain(&self.args);
        single
            .chain(self.env.values())
            .chain(self.headers.values())
            .map(String::as_str)
    }
}

/// A question for the user.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestPrompt {
    /// The variable the answer is for.
    pub variable: String,
    /// What to ask.
    pub question: String,
    /// A secret is asked without echo and kept in `.env`; other answers are written into the entry.
    #[serde(default)]
    pub secret: bool,
    /// Without an answer or default the server cannot be added.
    #[serde(default)]
    pub required: bool,
    /// Taken where there is no answer.
    pub default: Option<String>,
}

/// `tools.include` and `tools.exclude` of the new entry.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolChoice {
    /// Only these.
    pub include: Option<Vec<String>>,
    /// All but these.
    pub exclude: Option<Vec<String>>,
}

/// A server built from its repository.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GitInstall {
    /// The address to clone.
    pub repository: String,
    /// Tag or commit. A branch would change under the user.
    pub reference: String,
    /// Programs with their arguments, run one after the other in the clone.
    #[serde(default)]
    pub commands: Vec<Vec<String>>,
}

impl Manifest {
    /// Reads a manifest and checks it.
    pub fn parse(yaml: &str) -> Result<Self, String> {
        let manifest: Self = serde_saphyr::from_str(yaml).map_err(|error| {
            let message = DefaultMessageFormatter
                .format_message(error.without_snippet())
                .into_owned();
            match error.location() {
                Some(location) => format!(
                    "line {}, column {}: {message}",
                    location.line(),
                    location.column()
                ),
                None => message,
            }
        })?;
        manifest.check()?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        if self.version != 1 {
            return Err(format!("`version` is {}; only 1 is known", self.version));
        }
        let is_part = |character: char| {
            character.is_ascii_lowercase() || character.is_ascii_digit() || character == '-'
        };
        if self.id.is_empty() || !self.id.chars().all(is_part) {
            return Err("`id` has to be of small letters, digits and `-`".to_owned());
        }
        if self.transport.command.is_some() == self.transport.url.is_some() {
            return Err("`transport` needs either `command` or `url`".to_owned());
        }
        if self.transport.url.is_some()
            && !(self.transport.args.is_empty() && self.transport.env.is_empty())
        {
            return Err("`args` and `env` are for local servers".to_owned());
        }
        if let Some(install) = &self.install {
            install.check()?;
        }
        self.check_variables()
    }

    /// Every `${…}` has an answer, and every answer a place: a key that reaches nobody is a bug in the manifest.
    fn check_variables(&self) -> Result<(), String> {
        let used: Vec<_> = self.transport.texts().flat_map(variables_in).collect();
        for prompt in &self.prompts {
            if !used.contains(&prompt.variable.as_str()) {
                return Err(format!(
                    "`{}` is asked for, but `transport` does not use it",
                    prompt.variable
                ));
            }
        }
        for name in used {
            let is_prompted = self.prompts.iter().any(|prompt| prompt.variable == name);
            let is_installed = name == INSTALL_DIR && self.install.is_some();
            if !is_prompted && !is_installed {
                return Err(format!(
                    "`transport` uses `${{{name}}}`, but nothing says what it is"
                ));
            }
        }
        Ok(())
    }
}

impl GitInstall {
    fn check(&self) -> Result<(), String> {
        if !self.repository.starts_with("https://") {
            return Err("`install.repository` has to be an `https://` address".to_owned());
        }
        if self.reference.is_empty() || self.reference.starts_with('-') {
            return Err("`install.reference` has to be a tag or commit".to_owned());
        }
        if self.commands.iter().any(Vec::is_empty) {
            return Err("a command in `install.commands` is empty".to_owned());
        }
        Ok(())
    }
}

/// The names in `${…}`.
pub(super) fn variables_in(text: &str) -> impl Iterator<Item = &str> {
    text.split("${")
        .skip(1)
        .filter_map(|rest| rest.split_once('}'))
        .map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::Manifest;

    const GOOD: &str = "\
version: 1
id: notes
title: Notes
description: Keeps notes
homepage: https://example.com
transport:
  command: notes-server
  env: { NOTES_TOKEN: '${NOTES_TOKEN}' }
prompts:
  - { variable: NOTES_TOKEN, question: Token?, secret: true, required: true }
";

    #[test]
    fn a_manifest_that_keeps_the_rules_is_taken() {
        let manifest = Manifest::parse(GOOD).unwrap();
        assert_eq!(manifest.id, "notes");
        assert!(manifest.prompts[0].secret);
    }

    #[test]
    fn a_manifest_that_breaks_one_is_refused_with_the_reason() {
        let with_install = |install: &str| format!("{GOOD}install: {install}\n");
        for (text, reason) in [
            (GOOD.replace("version: 1", "version: 2"), "only 1 is known"),
            (GOOD.replace("id: notes", "id: My Notes"), "`id`"),
            (GOOD.replace("title:", "titel:"), "line 3"),
            (
                GOOD.replace("command: notes-server", "args: [x]"),
                "either `command` or `url`",
            ),
            (
                GOOD.replace("command: notes-server", "url: https://x"),
                "for local servers",
            ),
            (
                GOOD.replace("'${NOTES_TOKEN}'", "literal"),
                "does not use it",
            ),
            (
                GOOD.replace("notes-server", "'${INSTALL_DIR}/run'"),
                "nothing says what it is",
            ),
            (
                with_install("{ repository: 'git@x:y', reference: v1 }"),
                "https://",
            ),
            (
                with_install("{ repository: 'https://x/y', reference: --upload-pack=z }"),
                "tag or commit",
            ),
            (
                with_install("{ repository: 'https://x/y', reference: v1, commands: [[]] }"),
                "is empty",
            ),
        ] {
            let error = Manifest::parse(&text).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
