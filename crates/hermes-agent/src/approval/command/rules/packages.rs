//! Installers and runners that are given an address instead of the name of a package.

use super::Invocation;
use crate::approval::command::programs;

/// A program that installs the packages that it is given.
struct Installer {
    names: &'static [&'static str],
    verbs: &'static [&'static str],
    /// Options whose value is an address that no package comes from by itself, such as an index.
    indexes: &'static [&'static str],
    /// Whether `owner/name` is a repository.
    takes_repositories: bool,
}

const INSTALLERS: &[Installer] = &[
    Installer {
        names: &[
            "pip", "pip3", "pipx", "uv", "pipenv", "poetry", "pdm", "conda", "mamba",
        ],
        verbs: &["install", "add", "inject", "upgrade"],
        indexes: &[
            "-i",
            "--index-url",
            "--extra-index-url",
            "--index",
            "--default-index",
            "--proxy",
            "-f",
            "--find-links",
            "--trusted-host",
            "-c",
            "--constraint",
            "--cert",
        ],
        takes_repositories: false,
    },
    Installer {
        names: &["npm", "pnpm", "yarn", "bun"],
        verbs: &["install", "i", "add"],
        indexes: &[
            "--registry",
            "--prefix",
            "-C",
            "--dir",
            "--cwd",
            "--workspace",
            "-w",
            "--filter",
            "--proxy",
            "--https-proxy",
        ],
        takes_repositories: true,
    },
    Installer {
        names: &["cargo"],
        verbs: &["install", "binstall"],
        indexes: &["--index", "--registry", "--config", "--path", "--root"],
        takes_repositories: false,
    },
    Installer {
        names: &["gem"],
        verbs: &["install", "i"],
        indexes: &["--source", "-s", "-p", "--http-proxy"],
        takes_repositories: false,
    },
    Installer {
        names: &[
            "apt", "apt-get", "dnf", "yum", "zypper", "snap", "flatpak", "brew", "luarocks",
        ],
        verbs: &["install", "localinstall", "reinstall", "upgrade"],
        indexes: &[],
        takes_repositories: false,
    },
    Installer {
        names: &["rpm"],
        verbs: &["-i", "-ivh", "-U", "-Uvh", "--install", "--upgrade"],
        indexes: &[],
        takes_repositories: false,
    },
];
/// What an address of a package begins with, other than `https://` and the like.
const ADDRESS_STARTS: [&str; 6] = ["git+", "git@", "github:", "gitlab:", "bitbucket:", "gist:"];

/// `pip install https://…`, `npm i github:a/b`, `cargo install --git …`, `npx https://…`, `go run x@latest`
pub(super) fn installs_from_address(run: &Invocation<'_>) -> bool {
    let is_node = matches!(
        run.name,
        "npx" | "bunx" | "pnpx" | "npm" | "pnpm" | "yarn" | "bun"
    );
    let runs_address = programs::package_words(run).iter().any(|word| {
        is_address(word)
            || (is_node && is_repository(word))
            || (run.name == "go" && word.contains('@'))
    });
    runs_address || installs_address(run)
}

fn installs_address(run: &Invocation<'_>) -> bool {
    let Some(installer) = INSTALLERS
        .iter()
        .find(|installer| installer.names.contains(&run.name))
    else {
        return false;
    };
    // `uv pip install`
    let mut verbs = run.arguments.iter().take(3);
    let Some(at) = verbs.position(|word| installer.verbs.contains(&&*word.text)) else {
        return false;
    };
    let mut words = run.arguments[at + 1..]
        .iter()
        .map(|word| word.text.as_str());
    while let Some(word) = words.next() {
        if installer.indexes.contains(&word) {
            words.next();
            continue;
        }
        let (option, value) = match word.split_once('=') {
            Some((option, value)) if option.starts_with('-') => (option, value),
            _ => ("", word),
        };
        let is_package = !installer.indexes.contains(&option);
        let is_repository = installer.takes_repositories && is_repository(word);
        if is_package && (is_address(value) || is_repository) {
            return true;
        }
    }
    false
}

/// `https://…`, `git+ssh://…`, `name@github:a/b`
fn is_address(word: &str) -> bool {
    let mut parts = word.split('@');
    (word.contains("://") && !word.contains("file://"))
        || word.starts_with("git@")
        || parts.any(|part| ADDRESS_STARTS.iter().any(|start| part.starts_with(start)))
}

/// `owner/name`, which npm takes from GitHub. `@scope/name` is a package.
fn is_repository(word: &str) -> bool {
    let is_name = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_.#".contains(c))
    };
    !word.starts_with(['.', '-', '~'])
        && word
            .split_once('/')
            .is_some_and(|(owner, name)| is_name(owner) && is_name(name))
}
