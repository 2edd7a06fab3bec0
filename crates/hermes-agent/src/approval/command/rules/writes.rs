//! Commands that write to protected files or read credentials.

use std::path::{Path, PathBuf};

use hermes_protocol::matches_pattern;

use super::Invocation;
use crate::approval::{
    command::{directories, shell::Direction},
    protected,
    protected::pattern_of,
};

/// Programs that use a key without printing it.
const KEY_USERS: [&str; 14] = [
    "ssh",
    "scp",
    "sftp",
    "rsync",
    "git",
    "ssh-add",
    "ssh-keygen",
    "ssh-copy-id",
    "ls",
    "stat",
    "test",
    "[",
    "chmod",
    "chown",
];

/// Programs that read everything below a directory.
const READS_TREES: [&str; 12] = [
    "grep", "egrep", "rg", "ag", "ack", "tar", "zip", "7z", "cp", "rsync", "scp", "find",
];

/// The words that name what a command writes to.
pub(super) fn write_targets<'a>(run: &Invocation<'a>) -> Vec<&'a str> {
    let redirects = run.command.redirects.iter();
    let mut targets: Vec<&str> = redirects
        .filter(|redirect| redirect.direction == Direction::Out)
        .map(|redirect| redirect.target.as_str())
        .collect();
    match run.name {
        "tee" | "rm" | "unlink" | "rmdir" | "truncate" | "touch" | "mkdir" | "shred" | "patch" => {
            targets.extend(run.operands());
        }
        // The first operand is a mode or an owner.
        "chmod" | "chown" | "chgrp" => targets.extend(run.operands().skip(1)),
        "cp" | "mv" | "install" | "ln" | "rsync" | "scp" => {
            targets.extend(run.operands().last());
            targets.extend(option_values(run, &["-t", "--target-directory"]));
            if run.name == "mv" {
                targets.extend(run.operands());
            }
        }
        "sed" | "perl" | "gsed" if run.has_flag('i', "in-place") => targets.extend(run.operands()),
        "dd" => targets.extend(
            run.arguments
                .iter()
                .filter_map(|word| word.text.strip_prefix("of=")),
        ),
        "curl" => targets.extend(option_values(run, &["-o", "--output"])),
        "wget" => targets.extend(option_values(run, &["-O", "--output-document", "-P"])),
        "ed" | "ex" | "vi" | "vim" | "nvim" | "nano" => targets.extend(run.operands()),
        "visudo" | "vipw" => targets.push("/etc/sudoers"),
        _ => {}
    }
    targets
}

fn option_values<'a>(run: &Invocation<'a>, options: &[&str]) -> Vec<&'a str> {
    let mut values = Vec::new();
    for (index, word) in run.arguments.iter().enumerate() {
        for option in options {
            match word.text.strip_prefix(option) {
                Some("") => {
                    values.extend(run.arguments.get(index + 1).map(|word| word.text.as_str()));
                }
                Some(value) => values.push(value.trim_start_matches('=')),
                None => {}
            }
        }
    }
    values
}

fn writes_to(run: &Invocation<'_>, holds: impl Fn(&Path) -> bool) -> bool {
    write_targets(run).iter().any(|target| {
        let elsewhere = run.paths_elsewhere(target);
        let mut paths = run.paths(target).into_iter().chain(elsewhere);
        paths.any(|path| holds(&path))
    })
}

/// A write to `/etc` and the like.
pub(super) fn writes_system_config(run: &Invocation<'_>) -> bool {
    writes_to(run, protected::is_system_config)
}

/// A write to `~/.bashrc`, `~/.ssh` and the like.
pub(super) fn writes_startup_file(run: &Invocation<'_>) -> bool {
    // `crontab -l` only reads; everything else replaces the table.
    let is_new_table = run.name == "crontab" && !run.has_flag('l', "list");
    is_new_table || writes_to(run, |path| run.protected_paths.is_startup_file(path))
}

/// A write to the home's `config.yaml` or its databases.
pub(super) fn writes_hermes_config(run: &Invocation<'_>) -> bool {
    writes_to(run, |path| {
        run.protected_paths.is_hermes_config(path) || run.protected_paths.is_database(path)
    })
}

/// Any use of a file with credentials.
pub(super) fn uses_credentials(run: &Invocation<'_>) -> bool {
    if shows_environments(run) {
        return true;
    }
    let words = run.arguments.iter().map(|word| word.text.as_str());
    let redirects = run
        .command
        .redirects
        .iter()
        .map(|redirect| redirect.target.as_str());
    words.chain(redirects).any(|word| {
        // `--file=PATH`
        let word = word.rsplit('=').next().unwrap_or(word);
        run.paths(word).iter().any(|path| {
            is_in_secret_store(run, path)
                || protected::is_process_memory(path)
                || (!KEY_USERS.contains(&run.name) && is_key(run, path))
        }) || run.paths_elsewhere(word).iter().any(|path| {
            let is_named = run.protected_paths.user_home.as_deref() != path.parent();
            is_in_secret_store(run, path)
                || ((is_named || run.is_directory_unknown())
                    && !KEY_USERS.contains(&run.name)
                    && is_key(run, path))
        })
    })
}

/// `ps e`: with the variables of processes. `ps -e` is something else.
fn shows_environments(run: &Invocation<'_>) -> bool {
    const LETTERS: &str = "aceghjlmnrsuvwxXLVHTUkoOpqtf";
    const TAKE_VALUES: [&str; 12] = [
        "-C", "-G", "-O", "-U", "-g", "-k", "-o", "-p", "-q", "-s", "-t", "-u",
    ];
    let mut previous = "";
    run.name == "ps"
        && run.arguments.iter().any(|word| {
            let text = word.text.as_str();
            let is_value = TAKE_VALUES.contains(&previous) || previous.starts_with("--");
            previous = text;
            let are_flags = text.chars().all(|letter| LETTERS.contains(letter));
            !is_value && are_flags && text.contains('e')
        })
}

/// Whether a path is in a store of credentials, could match one by its `*`, or is the home of a recursive read.
fn is_in_secret_store(run: &Invocation<'_>, path: &Path) -> bool {
    let protected = run.protected_paths;
    // A link to the home, or to a parent of it, reaches everything in it.
    let mut held = protected
        .hermes_home
        .iter()
        .chain(&protected.hub_directories);
    let leads_home = |home: &PathBuf| home.starts_with(path) && path.is_absolute();
    if run.name == "ln" && held.any(leads_home) {
        return true;
    }
    if protected
        .hub_directories
        .iter()
        .any(|hub| may_be_in(path, hub))
    {
        return true;
    }
    if protected.hermes_home.as_deref() == Some(path) {
        return READS_TREES.contains(&run.name);
    }
    let mut above = PathBuf::new();
    for component in path.components() {
        let name = component.as_os_str().to_string_lossy();
        if name.contains(['*', '?', '[']) {
            let pattern = pattern_of(&name);
            let mut stores = protected::SECRET_STORES.iter();
            let is_store = stores.any(|store| {
                matches_pattern(&pattern, store) && protected.is_secret_store(&above.join(store))
            });
            return is_store || may_name_store(run, path);
        }
        above.push(component);
    }
    protected.is_secret_store(path)
}

/// Whether a path with patterns, also in the name of the home, can mean a store of credentials or what is in one.
fn may_name_store(run: &Invocation<'_>, path: &Path) -> bool {
    let homes = run.protected_paths.hermes_home.iter();
    let mut stores = homes.flat_map(|home| protected::SECRET_STORES.map(|store| home.join(store)));
    stores.any(|store| {
        let mut places = path.ancestors();
        places.any(|place| directories::may_mean(place, &store))
    })
}

/// Whether a path with patterns can mean something in a directory.
fn may_be_in(path: &Path, directory: &Path) -> bool {
    let mut parts = path.components();
    directory.components().all(|name| {
        let Some(part) = parts.next() else {
            return false;
        };
        let pattern = pattern_of(&part.as_os_str().to_string_lossy());
        part == name || matches_pattern(&pattern, &name.as_os_str().to_string_lossy())
    })
}

/// The file extension alone is not enough: a project's `*.key` may be anything.
fn is_key(run: &Invocation<'_>, path: &Path) -> bool {
    let is_users = run.protected_paths.user_home.as_ref().is_some_and(|home| {
        path.strip_prefix(home)
            .is_ok_and(|rest| rest.to_string_lossy().starts_with('.'))
    });
    is_users && run.protected_paths.is_user_credential(path)
}
