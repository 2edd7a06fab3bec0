//! One local server that is to be confined: from its settings and its program to the plan for its process.

use std::{
    io,
    path::{Path, PathBuf},
};

use hermes_config::{Home, ServerName, private_file::create_private_dir, server::SandboxSettings};

use super::{
    AppliedSandbox, NetworkAccess, SandboxPlan, SandboxSupport, UnixSocketAccess, is_system_path,
    runner,
};
use crate::{
    process::{environment, environment::Environment},
    tools::names,
};

/// Beside the `bin` of an installation, what its programs need to run.
const BESIDE_BIN: [&str; 4] = ["lib", "lib64", "libexec", "pyvenv.cfg"];

/// A server that is to be confined.
#[derive(Debug, Clone, Copy)]
pub struct SandboxTarget<'a> {
    pub server: &'a ServerName,
    /// What it may do.
    pub settings: &'a SandboxSettings,
    /// Its program, as found by [`environment::find_program`].
    pub program: &'a Path,
    pub environment: &'a Environment,
    /// Its working directory, which relative paths begin at.
    pub cwd: &'a Path,
    /// The home of the host.
    pub home: &'a Home,
}

/// The kernel cannot do what the configuration insists on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`sandbox.required` is set, and {}; use a kernel that can, or set `sandbox.required: false` to run the server anyway",
    missing.join(", and ")
)]
pub struct UnsupportedSandbox {
    missing: Vec<String>,
}

impl SandboxTarget<'_> {
    /// Decides how the server is confined by what this kernel has.
    pub fn plan_sandbox(
        &self,
        support: SandboxSupport,
    ) -> Result<AppliedSandbox, UnsupportedSandbox> {
        let missing = self.missing_support(support);
        if self.settings.required && !missing.is_empty() {
            return Err(UnsupportedSandbox { missing });
        }
        let mut warnings: Vec<String> = missing
            .into_iter()
            .map(|what| format!("`sandbox` is not fully in force: {what}"))
            .collect();
        if runner::is_service_client(self.program) {
            warnings.push(format!(
                "`sandbox` confines only `{}`; the service that it asks runs the server outside of it",
                self.program.display()
            ));
        }
        let listed = |key: &str, paths: &[PathBuf], warnings: &mut Vec<String>| {
            let paths: Vec<PathBuf> = paths.iter().map(|path| self.absolute(path)).collect();
            warnings.extend(paths.iter().filter(|path| !path.exists()).map(|path| {
                let path = path.display();
                format!("`sandbox.{key}`: `{path}` does not exist and stays closed, even if it is created later")
            }));
            paths
        };
        let mut read = listed("read", &self.settings.read, &mut warnings);
        let mut write = listed("write", &self.settings.write, &mut warnings);
        read.extend(self.program_files());
        write.push(self.own_directory());
        write.extend(runner::cache_directories(self.program, self.environment));
        dedup_nested(&mut read);
        dedup_nested(&mut write);
        Ok(AppliedSandbox {
            plan: SandboxPlan {
                support,
                read,
                write,
                network: self.network(),
                unix_sockets: self.unix_sockets(),
            },
            warnings,
        })
    }

    /// What the settings ask for and the kernel does not have.
    fn missing_support(&self, support: SandboxSupport) -> Vec<String> {
        let mut missing = Vec::new();
        if support.landlock.is_none() {
            missing.push(
                "this system has no Landlock (Linux has it since 5.13, where it is turned on), so all files can be reached"
                    .to_owned(),
            );
        }
        if self.network() == NetworkAccess::Denied && !support.seccomp {
            missing.push(if support.closes_tcp() {
                "system calls cannot be filtered, so only TCP is closed".to_owned()
            } else {
                "system calls cannot be filtered, so the network is open".to_owned()
            });
        } else if self.unix_sockets() == UnixSocketAccess::Denied && !support.seccomp {
            missing.push(
                "system calls cannot be filtered, so Unix sockets can be connected to".to_owned(),
            );
        }
        missing
    }

    fn unix_sockets(&self) -> UnixSocketAccess {
        if self.settings.unix_sockets_denied {
            UnixSocketAccess::Denied
        } else {
            UnixSocketAccess::Allowed
        }
    }

    fn network(&self) -> NetworkAccess {
        if self.settings.network_denied {
            NetworkAccess::Denied
        } else {
            NetworkAccess::Allowed
        }
    }

    /// The server's own place for temporary files; nothing else of the home is open to it.
    pub fn own_directory(&self) -> PathBuf {
        let name = names::sanitise(self.server.as_str());
        self.home.cache_dir().join("sandbox").join(name)
    }

    /// Makes what has to be there before the sandbox closes: nothing above it can be changed from inside.
    pub(crate) fn make_directories(&self) -> io::Result<()> {
        let own = self.own_directory();
        if let Some(sandboxes) = own.parent() {
            create_private_dir(&self.home.cache_dir())?;
            create_private_dir(sandboxes)?;
        }
        create_private_dir(&own)?;
        for cache in runner::cache_directories(self.program, self.environment) {
            // The runner itself says what is wrong with its cache.
            let _ = std::fs::create_dir_all(cache);
        }
        Ok(())
    }

    /// Whether the plan lets the server look into a directory.
    pub(crate) fn can_read(plan: &SandboxPlan, directory: &Path) -> bool {
        let open = plan.read.iter().chain(&plan.write);
        plan.support.landlock.is_none()
            || is_system_path(directory)
            || open.into_iter().any(|path| directory.starts_with(path))
    }

    fn absolute(&self, path: &Path) -> PathBuf {
        let expanded = match path.to_str() {
            Some(text) => environment::expand_home(text, self.environment),
            None => path.to_owned(),
        };
        self.cwd.join(expanded)
    }

    /// The program, its interpreter, and what is installed with them.
    fn program_files(&self) -> Vec<PathBuf> {
        let find =
            |name: &str| environment::find_program(name, self.environment, self.home.path()).ok();
        let mut files = self.installation(self.program);
        let by_script = environment::script_interpreter(self.program);
        let interpreter = match &by_script {
            Some(name) if name.contains('/') => Some(PathBuf::from(name)),
            Some(name) => find(name),
            None => None,
        };
        let by_runner = runner::interpreter(self.program).and_then(find);
        for interpreter in [interpreter, by_runner].into_iter().flatten() {
            files.extend(self.installation(&interpreter));
        }
        files
    }

    /// Where a program is, and where it really is if that was a link.
    fn installation(&self, program: &Path) -> Vec<PathBuf> {
        let program = self.cwd.join(program);
        let target = program.canonicalize().ok();
        let mut files = Vec::new();
        for path in [Some(program), target].into_iter().flatten() {
            if let Some(modules) = outermost_modules(&path) {
                files.push(modules);
            }
            let Some(directory) = path.parent() else {
                continue;
            };
            if directory.ends_with("bin")
                && let Some(prefix) = directory.parent()
            {
                files.extend(BESIDE_BIN.map(|name| prefix.join(name)));
            }
            files.push(directory.to_owned());
            files.push(path);
        }
        files.retain(|path| !self.is_above_a_home(path) && !is_system_path(path) && path.exists());
        files
    }

    /// Whether opening a directory would open all that the user has, or the secrets of the host.
    fn is_above_a_home(&self, path: &Path) -> bool {
        let user_home = environment::expand_home("~", self.environment);
        let homes = [user_home.as_path(), self.home.path()];
        homes.into_iter().any(|home| {
            home.starts_with(path) || home.canonicalize().is_ok_and(|home| home.starts_with(path))
        })
    }
}

/// The directory of packages that a program of npm is in, with all it depends on.
fn outermost_modules(program: &Path) -> Option<PathBuf> {
    let within = program
        .ancestors()
        .filter(|path| path.ends_with("node_modules"));
    within.last().map(Path::to_owned)
}

/// Leaves out what is named twice or lies in something else that is named.
fn dedup_nested(paths: &mut Vec<PathBuf>) {
    paths.sort();
    // What lies in a directory comes right after it.
    paths.dedup_by(|later, kept| later.starts_with(&*kept));
}

#[cfg(test)]
mod tests;
