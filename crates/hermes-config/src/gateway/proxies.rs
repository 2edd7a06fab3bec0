//! The proxies that variables name for all programs.

use crate::{Secret, Variables};

/// `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY` and `NO_PROXY`, in capitals or not. An address may have a password in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxyVariables {
    pub https: Option<Secret<String>>,
    pub http: Option<Secret<String>>,
    /// For what has none of its own.
    pub all: Option<Secret<String>>,
    /// Hosts that are reached without a proxy.
    pub exceptions: Option<String>,
}

impl ProxyVariables {
    pub(super) fn read(variables: &Variables) -> Self {
        let find = |name: &str| {
            let value = |name: &str| variables.get(name).filter(|value| !value.trim().is_empty());
            let found = value(name).or_else(|| value(&name.to_lowercase()));
            found.map(|value| value.trim().to_owned())
        };
        Self {
            https: find("HTTPS_PROXY").map(Secret::new),
            http: find("HTTP_PROXY").map(Secret::new),
            all: find("ALL_PROXY").map(Secret::new),
            exceptions: find("NO_PROXY"),
        }
    }

    /// Whether any address may be reached through a proxy.
    pub fn has_any(&self) -> bool {
        self.https.is_some() || self.http.is_some() || self.all.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_are_read_and_empty_ones_are_none() {
        let variables = Variables::from_pairs([
            ("HTTPS_PROXY", "http://a:1"),
            ("https_proxy", "http://b:1"),
            ("http_proxy", "http://c:1"),
            ("ALL_PROXY", " "),
            ("no_proxy", "localhost,.test"),
        ]);
        let proxies = ProxyVariables::read(&variables);
        let shown = |proxy: &Option<Secret<String>>| proxy.as_ref().map(|one| one.expose().clone());
        assert_eq!(shown(&proxies.https).as_deref(), Some("http://a:1"));
        assert_eq!(shown(&proxies.http).as_deref(), Some("http://c:1"));
        assert_eq!(proxies.all, None);
        assert_eq!(proxies.exceptions.as_deref(), Some("localhost,.test"));
        assert!(proxies.has_any());
        assert!(!format!("{proxies:?}").contains("a:1"));
        assert!(!ProxyVariables::read(&Variables::default()).has_any());
    }
}
