//! Files that were written in the same session, and where their content came from. Running one of them runs
//! something that nobody has reviewed.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    classify::Invocation,
    programs::without_options,
    shell::{Direction, ShellWord},
};

/// Where the content of a file came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileOrigin {
    /// The model, or one of its commands.
    Session,
    Download,
}

/// How many files are remembered; a session that writes more has been asked before.
const MAX_FILES: usize = 4096;

pub(crate) const DOWNLOADERS: [&str; 8] = [
    "curl", "wget", "fetch", "aria2c", "http", "https", "lynx", "nc",
];

/// Files that were written in a session. Copies are cheap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WrittenFiles(Arc<BTreeMap<PathBuf, FileOrigin>>);

impl WrittenFiles {
    pub(crate) fn add(&mut self, path: PathBuf, origin: FileOrigin) {
        if self.0.len() < MAX_FILES && self.0.get(&path) != Some(&origin) {
            Arc::make_mut(&mut self.0).insert(path, origin);
        }
    }

    pub(crate) fn extend(&mut self, others: &Self) {
        for (path, origin) in &*others.0 {
            self.add(path.clone(), *origin);
        }
    }

    /// The origin of a file that was written in the session, itself or as part of a fetched directory.
    pub(crate) fn origin(&self, path: &Path) -> Option<FileOrigin> {
        if let Some(origin) = self.0.get(path) {
            return Some(*origin);
        }
        let mut above = path.ancestors().skip(1);
        above.find_map(|above| self.0.get(above)).copied()
    }
}

/// The files a command writes to, as it names them.
pub(crate) fn output_files(run: &Invocation<'_>) -> Vec<(String, FileOrigin)> {
    let redirects = run.command.redirects.iter();
    let mut targets: Vec<String> = redirects
        .filter(|redirect| redirect.direction == Direction::Out)
        .map(|redirect| redirect.target.clone())
        .collect();
    let operands = || run.operands().map(str::to_owned);
    match run.name {
        "tee" | "touch" => targets.extend(operands()),
        "cp" | "mv" | "install" | "ln" | "rsync" | "scp" => targets.extend(operands().last()),
        "dd" => targets.extend(run.arguments.iter().filter_map(|word| {
            let target = word.text.strip_prefix("of=")?;
            Some(target.to_owned())
        })),
        "curl" => {
            targets.extend(option_values(run.arguments, &["-o", "--output"]));
            if run.has_flag('O', "remote-name") || run.has_flag('J', "remote-header-name") {
                targets.extend(operands().filter_map(|url| file_name_of_url(&url)));
            }
        }
        "wget" | "aria2c" => {
            let named = option_values(run.arguments, &["-O", "--output-document", "-o", "--out"]);
            if named.is_empty() {
                targets.extend(operands().filter_map(|url| file_name_of_url(&url)));
            }
            targets.extend(named);
        }
        "git" => targets.extend(clone_directory(run)),
        _ => {}
    }
    let is_fetched = DOWNLOADERS.contains(&run.name)
        || run.name == "git"
        || (run.command.reads_pipe && run.preceding.iter().any(downloads));
    let origin = if is_fetched {
        FileOrigin::Download
    } else {
        FileOrigin::Session
    };
    // Discarded output.
    targets.retain(|target| !target.starts_with("/dev/") && target != "-");
    targets.into_iter().map(|target| (target, origin)).collect()
}

/// Whether a command downloads something. The program may follow `sudo` or `env`.
pub(crate) fn downloads(command: &super::shell::ShellCommand) -> bool {
    let mut words = command.words.iter().take(3);
    words.any(|word| DOWNLOADERS.contains(&word.text.rsplit('/').next().unwrap_or_default()))
}

/// The values of options, as a separate word or attached to the option.
fn option_values(arguments: &[ShellWord], options: &[&str]) -> Vec<String> {
    let mut values = Vec::new();
    for (index, word) in arguments.iter().enumerate() {
        let next = || arguments.get(index + 1).map(|word| word.text.clone());
        let flags = word.text.strip_prefix('-').unwrap_or_default();
        for option in options {
            let letter = option.strip_prefix('-').unwrap_or_default();
            match word.text.strip_prefix(option) {
                Some("") => values.extend(next()),
                Some(value) => values.push(value.trim_start_matches('=').to_owned()),
                // Combined short options: `-sSo file`.
                None if letter.len() == 1
                    && flags.ends_with(letter)
                    && flags.chars().all(|flag| flag.is_ascii_alphabetic()) =>
                {
                    values.extend(next());
                }
                None => {}
            }
        }
    }
    values
}

/// The directory that `git clone` makes.
fn clone_directory(run: &Invocation<'_>) -> Option<String> {
    let rest = without_options(run.arguments, &["-C", "-c"]);
    let (verb, rest) = rest.split_first()?;
    if verb.text != "clone" {
        return None;
    }
    let values = [
        "-b", "--branch", "--depth", "-o", "--origin", "-j", "--jobs",
    ];
    let rest = without_options(rest, &values);
    match rest {
        [url] => file_name_of_url(&url.text).map(|name| name.trim_end_matches(".git").to_owned()),
        [_, directory, ..] => Some(directory.text.clone()),
        [] => None,
    }
}

/// The name under which a downloaded file is saved.
fn file_name_of_url(address: &str) -> Option<String> {
    let address = address.split(['?', '#']).next()?;
    let name = address.trim_end_matches('/').rsplit(['/', ':']).next()?;
    (!name.is_empty() && !name.starts_with('-')).then(|| name.to_owned())
}
