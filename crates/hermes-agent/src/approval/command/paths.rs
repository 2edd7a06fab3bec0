//! What the paths in a command refer to: the root, the system, a home directory, a disk.

use std::path::{Component, Path, PathBuf};

use hermes_protocol::matches_pattern;

use crate::approval::protected::{ProtectedPaths, normalize, pattern_of};

/// Directories directly below the root that a machine needs.
const SYSTEM_DIRECTORIES: [&str; 26] = [
    "Applications",
    "Library",
    "System",
    "Users",
    "Volumes",
    "bin",
    "boot",
    "dev",
    "etc",
    "home",
    "lib",
    "lib32",
    "lib64",
    "libx32",
    "opt",
    "private",
    "proc",
    "root",
    "run",
    "sbin",
    "srv",
    "sys",
    "usr",
    "var",
    "cores",
    "nix",
];
const NESTED_SYSTEM_DIRECTORIES: [&str; 9] = [
    "/usr/bin",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local",
    "/usr/sbin",
    "/usr/share",
    "/var/lib",
    "/private/etc",
    "/private/var",
];
/// Prefixes of the names of disks and partitions.
const DISK_PREFIXES: [&str; 16] = [
    "sd", "hd", "vd", "xvd", "nvme", "mmcblk", "md", "dm-", "loop", "nbd", "disk", "rdisk",
    "mapper/", "zd", "sr", "dasd",
];
const MAX_ALTERNATIVES: usize = 64;

/// The paths a word can mean in a directory: `~`, `$HOME` and `{a,b}` are filled in.
pub(crate) fn expand_paths(
    word: &str,
    directory: &Path,
    protected: &ProtectedPaths,
) -> Vec<PathBuf> {
    let mut alternatives = Vec::new();
    expand_braces(word, &mut alternatives);
    alternatives
        .iter()
        .map(|word| expand_path(word, directory, protected))
        .collect()
}

fn expand_path(word: &str, directory: &Path, protected: &ProtectedPaths) -> PathBuf {
    let (first, rest) = word
        .split_once('/')
        .map_or((word, None), |(first, rest)| (first, Some(rest)));
    let base = match first {
        "~" | "$HOME" => protected.user_home.clone(),
        "$HERMES_HOME" => protected.hermes_home.clone(),
        "$PWD" | "~+" => Some(directory.to_path_buf()),
        _ => first
            .strip_prefix('~')
            .filter(|user| !user.is_empty() && user.chars().all(char::is_alphanumeric))
            .map(|user| {
                if user == "root" {
                    PathBuf::from("/root")
                } else {
                    Path::new("/home").join(user)
                }
            }),
    };
    let path = match (base, rest) {
        (Some(base), Some(rest)) => base.join(rest.trim_start_matches('/')),
        (Some(base), None) => base,
        (None, _) => directory.join(word),
    };
    let path = normalize(&path);
    // The root of a process is the root.
    let mut components = path.components().skip(1).map(Component::as_os_str);
    match (components.next(), components.next(), components.next()) {
        (Some(first), Some(_), Some(third)) if first == "proc" && third == "root" => {
            Path::new("/").join(components.collect::<PathBuf>())
        }
        _ => path,
    }
}

fn expand_braces(word: &str, alternatives: &mut Vec<String>) {
    let inner = word.find('{').and_then(|open| {
        let close = word[open..].find('}')? + open;
        word[open + 1..close].contains(',').then_some((open, close))
    });
    match inner {
        Some((open, close)) if alternatives.len() < MAX_ALTERNATIVES => {
            for alternative in word[open + 1..close].split(',') {
                let expanded = format!("{}{alternative}{}", &word[..open], &word[close + 1..]);
                expand_braces(&expanded, alternatives);
            }
        }
        _ => alternatives.push(word.to_owned()),
    }
}

/// What would be lost if everything below a path were deleted, if it is more than files of a user.
pub(crate) fn describe_loss(path: &Path, protected: &ProtectedPaths) -> Option<&'static str> {
    let mut path = path;
    // `/*` is all of `/`.
    while let Some(name) = path.file_name().and_then(|name| name.to_str())
        && name.contains('*')
        && name.chars().all(|c| "*?.[]!^".contains(c))
    {
        path = path.parent()?;
    }
    let names: Vec<String> = path
        .components()
        .skip(1)
        .map(|component| component.as_os_str().to_string_lossy().into_owned())
        .collect();
    if !path.is_absolute() {
        return None;
    }
    if names.is_empty() {
        return Some("the root directory");
    }
    let is_home = protected
        .user_home
        .as_ref()
        .is_some_and(|home| home.starts_with(path));
    let is_some_home = names.len() == 2 && (names[0] == "home" || names[0] == "Users");
    if is_home || is_some_home {
        return Some("a home directory");
    }
    let pattern = pattern_of(&names[0]);
    let is_system = names.len() == 1
        && SYSTEM_DIRECTORIES
            .iter()
            .any(|name| matches_pattern(&pattern, name));
    let is_deep = NESTED_SYSTEM_DIRECTORIES
        .iter()
        .any(|place| path == Path::new(place));
    (is_system || is_deep).then_some("a system directory")
}

/// Whether a path is a disk or a part of one.
pub(crate) fn is_disk(path: &Path) -> bool {
    path.strip_prefix("/dev").is_ok_and(|rest| {
        let rest = rest.to_string_lossy();
        // `/dev/disk` itself is a directory of links.
        rest != "disk" && DISK_PREFIXES.iter().any(|disk| rest.starts_with(disk))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(word: &str, directory: &str) -> Option<&'static str> {
        let protected = ProtectedPaths {
            hermes_home: None,
            user_home: Some("/home/ann".into()),
            ..ProtectedPaths::default()
        };
        expand_paths(word, Path::new(directory), &protected)
            .iter()
            .find_map(|path| describe_loss(path, &protected))
    }

    #[test]
    fn the_root_the_system_and_homes_are_known_in_every_spelling() {
        for word in [
            "/",
            "//",
            "/.",
            "/*",
            "/**",
            "/../..",
            "/etc",
            "/etc/",
            "/etc/*",
            "/e*",
            "/usr/../bin",
            "/{tmp,etc}",
            "~",
            "~/",
            "~/*",
            "~/.*",
            "$HOME",
            "$HOME/*",
            "~ann",
            "~bob",
            "/home",
            "/home/bob",
            "/root",
            "/usr/lib",
            "/proc/self/root/etc",
            "/Users/x",
        ] {
            assert!(lost(word, "/work").is_some(), "{word}");
        }
        for (word, directory) in [
            (".", "/"),
            ("*", "/home/ann"),
            ("../..", "/home/ann/x"),
            ("./*", "/etc"),
        ] {
            assert!(lost(word, directory).is_some(), "{word} in {directory}");
        }
    }

    #[test]
    fn ordinary_directories_are_not() {
        for word in [
            "build",
            "./build",
            "*",
            "/tmp",
            "/tmp/*",
            "/home/ann/x",
            "~/x",
            "/usr/local/thing",
            "$OTHER/*",
            "/work/*",
            "",
            "node_modules",
        ] {
            assert_eq!(lost(word, "/work/project"), None, "{word}");
        }
    }

    #[test]
    fn disks_are_known_and_other_devices_are_not() {
        for path in [
            "/dev/sda",
            "/dev/nvme0n1p2",
            "/dev/disk/by-id/x",
            "/dev/rdisk0",
            "/dev/mapper/root",
        ] {
            assert!(is_disk(Path::new(path)), "{path}");
        }
        for path in [
            "/dev/null",
            "/dev/stderr",
            "/dev/tty",
            "/home/a/dev/sda",
            "/dev/shm/x",
            "/dev/disk",
        ] {
            assert!(!is_disk(Path::new(path)), "{path}");
        }
    }
}
