//! Programs that fetch a server before they run it: what they need besides themselves.

use std::path::{Path, PathBuf};

use crate::process::{environment, environment::Environment};

struct PackageRunner {
    names: &'static [&'static str],
    /// What it runs packages with.
    interpreter: Option<&'static str>,
    /// Where it keeps them: a variable that says so, and the place below the user's home if that is not set.
    caches: &'static [(&'static str, &'static str)],
}

const RUNNERS: [PackageRunner; 7] = [
    PackageRunner {
        names: &["npx", "npm"],
        interpreter: Some("node"),
        caches: &[("npm_config_cache", ".npm")],
    },
    PackageRunner {
        names: &["pnpm", "pnpx"],
        interpreter: Some("node"),
        caches: &[
            ("PNPM_HOME", ".local/share/pnpm"),
            ("", ".cache/pnpm"),
            ("", ".local/state/pnpm"),
        ],
    },
    PackageRunner {
        names: &["yarn"],
        interpreter: Some("node"),
        caches: &[("YARN_CACHE_FOLDER", ".cache/yarn"), ("", ".yarn")],
    },
    PackageRunner {
        names: &["bun", "bunx"],
        interpreter: None,
        caches: &[("BUN_INSTALL", ".bun")],
    },
    PackageRunner {
        names: &["deno"],
        interpreter: None,
        caches: &[("DENO_DIR", ".cache/deno")],
    },
    PackageRunner {
        names: &["uv", "uvx"],
        interpreter: Some("uv"),
        caches: &[("UV_CACHE_DIR", ".cache/uv"), ("", ".local/share/uv")],
    },
    PackageRunner {
        names: &["pipx"],
        interpreter: None,
        caches: &[("PIPX_HOME", ".local/share/pipx"), ("", ".cache/pipx")],
    },
];

/// Programs that only ask a service to run something.
const SERVICE_CLIENTS: [&str; 3] = ["docker", "podman", "nerdctl"];

fn find_runner(program: &Path) -> Option<&'static PackageRunner> {
    let name = program.file_name()?.to_str()?;
    RUNNERS.iter().find(|runner| runner.names.contains(&name))
}

/// Whether the program has the server run by a service, which no sandbox of ours reaches.
pub(super) fn is_service_client(program: &Path) -> bool {
    let name = program.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| SERVICE_CLIENTS.contains(&name))
}

/// What a package runner runs packages with.
pub(super) fn interpreter(program: &Path) -> Option<&'static str> {
    find_runner(program)?.interpreter
}

/// Where a package runner keeps its packages.
pub(super) fn cache_directories(program: &Path, environment: &Environment) -> Vec<PathBuf> {
    let Some(runner) = find_runner(program) else {
        return Vec::new();
    };
    let cache_directory = |(variable, below_home): &(&str, &str)| {
        let configured =
            environment::get_variable(environment, variable).filter(|path| !path.is_empty());
        match configured {
            Some(path) => PathBuf::from(path),
            None => path_below_home(below_home, environment),
        }
    };
    runner.caches.iter().map(cache_directory).collect()
}

/// A place below the user's home, which variables can move elsewhere.
fn path_below_home(path: &str, environment: &Environment) -> PathBuf {
    let moved = [
        (".cache/", "XDG_CACHE_HOME"),
        (".local/share/", "XDG_DATA_HOME"),
        (".local/state/", "XDG_STATE_HOME"),
    ];
    for (usual, variable) in moved {
        if let Some(rest) = path.strip_prefix(usual)
            && let Some(directory) = environment::get_variable(environment, variable)
            && Path::new(directory).is_absolute()
        {
            return Path::new(directory).join(rest);
        }
    }
    environment::expand_home(&format!("~/{path}"), environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let pairs = variables.iter();
        pairs
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }

    #[test]
    fn a_cache_is_where_variables_say_or_below_the_home() {
        let usual = environment(&[("HOME", "/home/ada")]);
        assert_eq!(
            cache_directories(Path::new("/usr/bin/npx"), &usual),
            [PathBuf::from("/home/ada/.npm")]
        );
        let moved = environment(&[
            ("HOME", "/home/ada"),
            ("UV_CACHE_DIR", "/srv/uv"),
            ("XDG_DATA_HOME", "/srv/data"),
        ]);
        assert_eq!(
            cache_directories(Path::new("/opt/uvx"), &moved),
            [PathBuf::from("/srv/uv"), PathBuf::from("/srv/data/uv")]
        );
    }

    #[test]
    fn a_program_of_another_name_has_no_cache() {
        let usual = environment(&[("HOME", "/home/ada")]);
        assert!(cache_directories(Path::new("/usr/bin/node"), &usual).is_empty());
        assert!(!is_service_client(Path::new("/usr/bin/node")));
        assert!(is_service_client(Path::new("/usr/bin/docker")));
    }
}
