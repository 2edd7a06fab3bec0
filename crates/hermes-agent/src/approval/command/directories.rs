//! The directory that a command runs in, as `cd` and its relatives set it within a line.

use std::path::{Path, PathBuf};

use hermes_protocol::matches_pattern;

use super::{
    classify::CommandContext,
    paths,
    programs::without_options,
    shell,
    shell::{ShellWord, join_words},
};
use crate::approval::protected::{ProtectedPaths, pattern_of};

/// Lines that go to more directories than these are not followed.
const MAX_EARLIER: usize = 32;
/// Lines within lines, as in `eval "cd x"`.
const MAX_EVAL_NESTING: usize = 8;
/// Targets that only a running shell knows, but that are in the same project or empty.
const HARMLESS_TARGETS: [&str; 6] = [
    "$(pwd)",
    "$(git rev-parse --show-toplevel)",
    "$(dirname \"$0\")",
    "$(dirname $0)",
    "$(dirname \"${BASH_SOURCE[0]}\")",
    "$(dirname \"$BASH_SOURCE\")",
];
/// First parts of names that mean a secret or a setting of the home, if the directory is not known. Others, such as
/// `auth` and `run`, are in many projects.
const TELLING_NAMES: [&str; 10] = [
    ".env",
    ".anthropic_oauth.json",
    "auth.json",
    "config.yaml",
    "mcp-pins.json",
    "mcp-tokens",
    "runtime.db",
    "secrets.json",
    "secrets.key",
    "state.db",
];
/// Names that mean a secret of a Hub, if the directory is not known.
const TELLING_HUB_NAMES: [&str; 3] = ["admin.token", "hub.db", "secret.key"];

/// Directories that a command may run in, beside the one that its line names last: a `cd` can fail, and one in a
/// subshell ends with it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OtherDirectories {
    /// Where the line was before; the last one is last.
    earlier: Vec<PathBuf>,
    /// Whether the line goes where only a running shell knows.
    is_unknown: bool,
}

impl OtherDirectories {
    pub(crate) fn is_unknown(&self) -> bool {
        self.is_unknown
    }

    /// What a relative name may mean in them, where that is protected.
    pub(crate) fn paths(&self, word: &str, protected: &ProtectedPaths) -> Vec<PathBuf> {
        let names_file = !word.starts_with(['/', '~', '$', '*', '?', '[', '-', '.'])
            || word.strip_prefix('.').is_some_and(|rest| {
                rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/')
            });
        if !names_file || word.is_empty() || word == "./" {
            return Vec::new();
        }
        let mut found: Vec<PathBuf> = self
            .earlier
            .iter()
            .flat_map(|directory| paths::expand_paths(word, directory, protected))
            .collect();
        if self.is_unknown {
            found.extend(telling_paths(word.trim_start_matches("./"), protected));
        }
        found
    }
}

/// What a name would mean in the directories with secrets.
fn telling_paths(word: &str, protected: &ProtectedPaths) -> Vec<PathBuf> {
    let first = word.split('/').next().unwrap_or_default();
    let pattern = pattern_of(first);
    let tells = |name: &&str| matches_pattern(&pattern, name);
    let mut found = Vec::new();
    if TELLING_NAMES.iter().any(tells) || first.starts_with(".env.") {
        found.extend(protected.hermes_home.iter().map(|home| home.join(word)));
    }
    if TELLING_HUB_NAMES.iter().any(tells) {
        let hubs = protected.hub_directories.iter();
        found.extend(hubs.map(|hub| hub.join(word)));
    }
    if let Some(user) = &protected.user_home {
        if first.starts_with('.') {
            found.push(user.join(word));
        }
        if first.starts_with("id_") || first == "authorized_keys" {
            found.push(user.join(".ssh").join(word));
        }
    }
    found
}

/// Follows a command that changes the directory of the shell.
pub(crate) fn follow(words: &[ShellWord], context: &mut CommandContext) {
    follow_nested(words, context, 0);
}

fn follow_nested(words: &[ShellWord], context: &mut CommandContext, depth: usize) {
    let Some((program, arguments)) = words.split_first() else {
        return;
    };
    match program.text.as_str() {
        "command" | "builtin" | "noglob" | "nocorrect" | "time" => {
            follow_nested(without_options(arguments, &[]), context, depth);
        }
        "eval" if depth < MAX_EVAL_NESTING => {
            let commands = shell::parse(&join_words(without_options(arguments, &[])));
            for command in commands.unwrap_or_default() {
                follow_nested(&command.words, context, depth + 1);
            }
        }
        "cd" | "chdir" | "pushd" => {
            let target = join_words(without_options(arguments, &[]));
            match target.as_str() {
                "" if program.text == "pushd" => go_back(context),
                "" => enter("~", context),
                "-" => go_back(context),
                target if target.starts_with('+') => context.other_directories.is_unknown = true,
                target => enter(target, context),
            }
        }
        "popd" => go_back(context),
        _ => {}
    }
}

/// Goes to a directory, as far as its name tells which it is.
pub(crate) fn enter(target: &str, context: &mut CommandContext) {
    let protected = &context.protected_paths;
    let expanded = paths::expand_paths(target, &context.directory, protected);
    let Some(path) = expanded.into_iter().next() else {
        return;
    };
    let is_computed = path.to_string_lossy().contains(['$', '`']);
    let is_harmless = HARMLESS_TARGETS.contains(&target) || target.starts_with("$(mktemp ");
    // The variable CDPATH can have the shell go there from anywhere.
    let home = protected.hermes_home.clone();
    let named_home = home.filter(|home| {
        let name = home.file_name();
        name == path.file_name() && name.is_some_and(|name| name.to_string_lossy().starts_with('.'))
    });
    let path = resolve_pattern(path, protected);
    let before = std::mem::replace(&mut context.directory, path);
    let others = &mut context.other_directories;
    others.is_unknown |= is_computed && !is_harmless;
    remember(others, before);
    if let Some(home) = named_home {
        remember(others, home);
    }
}

fn go_back(context: &mut CommandContext) {
    match context.other_directories.earlier.last().cloned() {
        Some(path) => {
            let before = std::mem::replace(&mut context.directory, path);
            remember(&mut context.other_directories, before);
        }
        None => context.other_directories.is_unknown = true,
    }
}

fn remember(others: &mut OtherDirectories, directory: PathBuf) {
    others.earlier.retain(|known| *known != directory);
    if others.earlier.len() < MAX_EARLIER {
        others.earlier.push(directory);
    } else {
        others.is_unknown = true;
    }
}

/// The protected directory that a path with patterns can mean, or the path itself.
fn resolve_pattern(path: PathBuf, protected: &ProtectedPaths) -> PathBuf {
    if !path.to_string_lossy().contains(['*', '?', '[']) {
        return path;
    }
    let homes = protected
        .hermes_home
        .iter()
        .flat_map(|home| [home.clone(), home.join("mcp-tokens"), home.join("run")]);
    let users = protected
        .user_home
        .iter()
        .flat_map(|user| [user.clone(), user.join(".ssh")]);
    let hubs = protected.hub_directories.iter().cloned();
    let mut protected = homes.chain(hubs).chain(users);
    let meant = protected.find(|directory| may_mean(&path, directory));
    meant.unwrap_or(path)
}

/// Whether a path with patterns can mean this one. Patterns do not match a leading dot.
pub(crate) fn may_mean(path: &Path, meant: &Path) -> bool {
    let mut names = meant.components();
    let are_alike = path.components().all(|part| {
        let Some(name) = names.next() else {
            return false;
        };
        let (part, name) = (
            part.as_os_str().to_string_lossy(),
            name.as_os_str().to_string_lossy(),
        );
        let is_hidden = name.starts_with('.') && !part.starts_with('.');
        part == name || (!is_hidden && matches_pattern(&pattern_of(&part), &name))
    });
    are_alike && names.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approval::command::written_files::WrittenFiles;

    fn after(line: &str) -> CommandContext {
        let mut context = CommandContext {
            directory: "/home/ann/project".into(),
            protected_paths: ProtectedPaths {
                hermes_home: Some("/home/ann/.hermes".into()),
                user_home: Some("/home/ann".into()),
                ..ProtectedPaths::default()
            },
            written_files: WrittenFiles::default(),
            other_directories: OtherDirectories::default(),
        };
        for command in shell::parse(line).unwrap() {
            follow(&command.words, &mut context);
        }
        context
    }

    #[test]
    fn every_way_to_change_the_directory_is_followed() {
        for (line, directory) in [
            ("cd src", "/home/ann/project/src"),
            ("cd -P ~/.hermes", "/home/ann/.hermes"),
            ("cd -- ~/.hermes", "/home/ann/.hermes"),
            ("cd", "/home/ann"),
            ("command cd /tmp", "/tmp"),
            ("builtin cd -L /tmp", "/tmp"),
            ("eval 'cd /tmp; cd x'", "/tmp/x"),
            ("pushd /tmp; popd", "/home/ann/project"),
            ("cd /tmp; cd -", "/home/ann/project"),
            ("cd ~/.h*", "/home/ann/.hermes"),
            ("cd /home/*/.herme[s]", "/home/ann/.hermes"),
            ("ls", "/home/ann/project"),
        ] {
            assert_eq!(after(line).directory, Path::new(directory), "{line}");
        }
    }

    #[test]
    fn a_target_that_only_a_shell_knows_is_unknown() {
        for line in ["cd \"$X\"", "cd $(cat place)", "cd `x`", "popd", "cd -"] {
            assert!(after(line).other_directories.is_unknown(), "{line}");
        }
        for line in [
            "cd src",
            "cd \"$(git rev-parse --show-toplevel)\"",
            "cd \"$(mktemp -d)\"",
            "cd $HOME/x",
        ] {
            assert!(!after(line).other_directories.is_unknown(), "{line}");
        }
    }

    #[test]
    fn names_in_an_unknown_directory_are_those_of_secrets_only() {
        let context = after("cd \"$X\"");
        let paths = |word| {
            let others = &context.other_directories;
            let found = others.paths(word, &context.protected_paths);
            found
                .iter()
                .any(|path| context.protected_paths.is_secret_store(path))
        };
        for word in [".env", "./.env", "mcp-tokens/x", "auth.json"] {
            assert!(paths(word), "{word}");
        }
        for word in ["main.rs", "*", ".", "..", "auth/login.py", "logs/x", "-r"] {
            assert!(!paths(word), "{word}");
        }
    }
}
