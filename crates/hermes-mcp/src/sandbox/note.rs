//! A word beside an error that the sandbox may have caused: servers report what the kernel told them, and nothing in
//! that points to the configuration.

use super::{Confined, Network};

/// What programs say when the kernel has refused something, in lower case.
const REFUSED: [&str; 5] = [
    "eacces",
    "eperm",
    "permission denied",
    "permissionerror",
    "operation not permitted",
];

/// What they say, besides, when there is no network.
const UNREACHABLE: [&str; 7] = [
    "eai_again",
    "enotfound",
    "fetch failed",
    "getaddrinfo",
    "name resolution",
    "network is unreachable",
    "dns error",
];

impl Confined {
    /// What to add to an error, if the sandbox may be why.
    pub(crate) fn note(&self, error: &str) -> Option<&'static str> {
        let error = error.to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| error.contains(word));
        let confines_files = self.plan.support.landlock.is_some();
        let denies_network = self.plan.network == Network::Denied;
        match (confines_files, denies_network) {
            (true, true) if says(&REFUSED) || says(&UNREACHABLE) => Some(
                "note: this server runs in a sandbox without a network, which may be why; it reaches only what \
                 `sandbox.read` and `sandbox.write` of its entry list",
            ),
            (true, false) if says(&REFUSED) => Some(
                "note: this server runs in a sandbox, which may be why; it reaches only what `sandbox.read` and \
                 `sandbox.write` of its entry list",
            ),
            (false, true) if says(&REFUSED) || says(&UNREACHABLE) => Some(
                "note: this server runs without a network (`sandbox.network: deny` in its entry), which may be why",
            ),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Plan, Support};
    use super::*;

    fn confined(network: Network) -> Confined {
        Confined {
            plan: Plan {
                support: Support {
                    landlock: Some(6),
                    seccomp: true,
                },
                read: Vec::new(),
                write: Vec::new(),
                network,
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
            assert!(confined(Network::Allowed).note(error).is_some(), "{error}");
        }
    }

    #[test]
    fn what_a_server_refuses_by_itself_is_not_blamed_on_the_sandbox() {
        let error = "Access denied - path outside allowed directories";
        assert_eq!(confined(Network::Denied).note(error), None);
    }

    #[test]
    fn a_name_that_is_not_found_is_the_sandbox_s_doing_only_without_a_network() {
        let error = "getaddrinfo EAI_AGAIN example.com";
        assert_eq!(confined(Network::Allowed).note(error), None);
        let note = confined(Network::Denied).note(error).unwrap();
        assert!(note.contains("without a network"), "{note}");
    }
}
