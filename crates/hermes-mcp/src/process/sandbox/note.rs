//! A hint beside an error that the sandbox may have caused: servers report what the kernel told them, and nothing in
//! that points to the configuration. Some do not even report that, and call a file missing or broken that is closed.

use std::path::Path;

use super::{AppliedSandbox, NetworkAccess, SandboxPlan, is_system_path};

/// How many paths of an error are looked at.
const MAX_PATHS: usize = 20;

/// What programs say when the kernel has refused something, in lower case.
const REFUSED_PHRASES: [&str; 5] = [
    "eacces",
    "eperm",
    "permission denied",
    "permissionerror",
    "operation not permitted",
];

/// What they say, besides, when there is no network.
const UNREACHABLE_PHRASES: [&str; 7] = [
    "eai_again",
    "enotfound",
    "fetch failed",
    "getaddrinfo",
    "name resolution",
    "network is unreachable",
    "dns error",
];

impl AppliedSandbox {
    /// What to add to an error, if the sandbox may be why.
    pub(crate) fn hint_for(&self, words: &str) -> Option<&'static str> {
        let error = words.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| error.contains(word));
        let confines_files = self.plan.support.landlock.is_some();
        let denies_network = self.plan.network == NetworkAccess::Denied;
        let is_refused =
            says(&REFUSED_PHRASES) || (confines_files && names_closed_path(&self.plan, words));
        match (confines_files, denies_network) {
            (true, true) if is_refused || says(&UNREACHABLE_PHRASES) => Some(
                "note: this server runs in a sandbox without a network, which may be why; it reaches only what \
                 `sandbox.read` and `sandbox.write` of its entry list",
            ),
            (true, false) if is_refused => Some(
                "note: this server runs in a sandbox, which may be why; it reaches only what `sandbox.read` and \
                 `sandbox.write` of its entry list",
            ),
            (false, true) if is_refused || says(&UNREACHABLE_PHRASES) => Some(
                "note: this server runs without a network (`sandbox.network: deny` in its entry), which may be why",
            ),
            _ => None,
        }
    }
}

/// Whether a text names a file that is there and that the plan keeps closed.
fn names_closed_path(plan: &SandboxPlan, text: &str) -> bool {
    let is_around =
        |character: char| character.is_whitespace() || "'\"`()[]<>,;:".contains(character);
    text.split(is_around)
        .map(|word| word.trim_end_matches(['.', '!', '?']))
        .filter(|word| word.len() > 1 && word.starts_with('/'))
        .take(MAX_PATHS)
        .any(|path| is_closed(plan, Path::new(path)))
}

fn is_closed(plan: &SandboxPlan, path: &Path) -> bool {
    // What a link leads to is what counts. What is not there is not closed either.
    let Ok(path) = path.canonicalize() else {
        return false;
    };
    let mut open = plan.read.iter().chain(&plan.write);
    let is_open = open.any(|open| {
        path.starts_with(open) || open.canonicalize().is_ok_and(|open| path.starts_with(open))
    });
    // The machine's own parts are open to some degree, and never what somebody misses.
    let is_of_machine = ["/etc", "/proc", "/sys", "/dev"];
    !is_open
        && !is_system_path(&path)
        && !is_of_machine
            .iter()
            .any(|directory| path.starts_with(directory))
}

#[cfg(test)]
mod tests {
    use super::{
        super::{SandboxSupport, UnixSocketAccess},
        *,
    };

    fn confined(network: NetworkAccess) -> AppliedSandbox {
        AppliedSandbox {
            plan: SandboxPlan {
                support: SandboxSupport {
                    landlock: Some(6),
                    seccomp: true,
                },
                read: Vec::new(),
                write: Vec::new(),
                network,
                unix_sockets: UnixSocketAccess::Allowed,
            },
            warnings: Vec::new(),
        }
    }

    #[test]
    fn a_refusal_of_the_kernel_is_explained_in_every_language() {
        for error in [
            "EACCES: permission denied, open '/etc/shadow'",
            "[Errno 13] Permission denied: '/etc/shadow'",
            "open: Operation not permitted (os error 1)",
        ] {
            assert!(
                confined(NetworkAccess::Allowed).hint_for(error).is_some(),
                "{error}"
            );
        }
    }

    #[test]
    fn what_a_server_refuses_by_itself_is_not_blamed_on_the_sandbox() {
        let error = "Access denied - path outside allowed directories";
        assert_eq!(confined(NetworkAccess::Denied).hint_for(error), None);
    }

    #[test]
    fn an_error_that_names_a_closed_file_is_explained_whatever_it_says() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).display().to_string();
        for name in ["open", "closed"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        let mut confined = confined(NetworkAccess::Allowed);
        confined.plan.read = vec![path("open").into()];
        let explained = |error: String| confined.hint_for(&error).is_some();
        assert!(explained(format!(
            "not a repository: '{}'.",
            path("closed")
        )));
        assert!(explained(path("closed")));
        assert!(!explained(format!("not a repository: {}", path("open"))));
        assert!(!explained(format!("no such file: {}", path("missing"))));
        assert!(!explained("see /usr/share and /docs".to_owned()));
    }

    #[test]
    fn a_name_that_is_not_found_is_the_sandbox_s_doing_only_without_a_network() {
        let error = "getaddrinfo EAI_AGAIN example.com";
        assert_eq!(confined(NetworkAccess::Allowed).hint_for(error), None);
        let note = confined(NetworkAccess::Denied).hint_for(error).unwrap();
        assert!(note.contains("without a network"), "{note}");
    }
}
