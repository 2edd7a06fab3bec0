//! Finds mentions in a text, and completes what follows an `@`.

use hermes_config::ServerName;
use hermes_mcp::Host;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mention {
    pub(super) target: MentionTarget,
    /// With the `@`.
    pub(super) written: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MentionTarget {
    Resource {
        server: ServerName,
        uri: String,
    },
    /// Looks like a mention, but the server does not exist.
    Unknown(String),
}

/// Every mention, each once, in order.
pub(super) fn find_mentions(text: &str, servers: &[ServerName]) -> Vec<Mention> {
    let mut mentions: Vec<Mention> = Vec::new();
    for (at, _) in text.match_indices('@') {
        let opens_word = text[..at]
            .chars()
            .next_back()
            .is_none_or(|before| before.is_whitespace() || "([{<\"'`,;".contains(before));
        let mention = opens_word
            .then(|| parse_mention(&text[at + 1..], servers))
            .flatten();
        mentions.extend(mention.filter(|mention| !mentions.contains(mention)));
    }
    mentions
}

/// Reads what follows an `@`.
fn parse_mention(rest: &str, servers: &[ServerName]) -> Option<Mention> {
    // Names may contain anything: the longest match wins.
    let fits = |server: &&ServerName| {
        rest.strip_prefix(server.as_str())
            .is_some_and(|rest| rest.starts_with(':'))
    };
    let known = servers
        .iter()
        .filter(fits)
        .max_by_key(|server| server.as_str().len());
    let (name, uri) = match known {
        Some(server) => (server.as_str(), &rest[server.as_str().len() + 1..]),
        None => rest.split_once(':')?,
    };
    let uri = parse_uri(uri);
    let written = format!("@{name}:{uri}");
    let target = match known {
        _ if uri.is_empty() => return None,
        Some(server) => MentionTarget::Resource {
            server: server.clone(),
            uri: uri.to_owned(),
        },
        None if is_like_name(name) && (is_like_address(uri) || is_mistyped(name, servers)) => {
            MentionTarget::Unknown(name.to_owned())
        }
        None => return None,
    };
    Some(Mention { target, written })
}

/// The URI up to the next space, without trailing punctuation.
fn parse_uri(text: &str) -> &str {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let mut uri = &text[..end];
    loop {
        let shorter = uri.strip_suffix(['.', ',', ';', ':', '!', '?', '"', '\'', '`', '>']);
        let shorter = shorter.or_else(|| strip_unopened_bracket(uri, '(', ')'));
        let shorter = shorter.or_else(|| strip_unopened_bracket(uri, '[', ']'));
        match shorter.or_else(|| strip_unopened_bracket(uri, '{', '}')) {
            Some(shorter) => uri = shorter,
            None => return uri,
        }
    }
}

/// Removes a closing bracket at the end that has no opening one in the URI.
fn strip_unopened_bracket(uri: &str, open: char, close: char) -> Option<&str> {
    let shorter = uri.strip_suffix(close)?;
    (uri.matches(close).count() > uri.matches(open).count()).then_some(shorter)
}

fn is_like_name(name: &str) -> bool {
    let is_part = |character: char| character.is_alphanumeric() || "-_.".contains(character);
    !name.is_empty() && name.chars().all(is_part)
}

/// `@name: text` may also address a person; such text does not look like a URI.
fn is_like_address(uri: &str) -> bool {
    uri.contains([':', '/']) || uri.contains('.') && !uri.contains("..")
}

/// Whether a name differs from a server's only in case.
fn is_mistyped(name: &str, servers: &[ServerName]) -> bool {
    let mut names = servers.iter().map(ServerName::as_str);
    names.any(|server| server.to_lowercase() == name.to_lowercase())
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MentionCandidate {
    /// The text to insert: `@server:uri`. A template contains its `{placeholders}`.
    pub text: String,
    pub description: String,
}

/// The resources and templates that match the typed text, `@` included, in the servers' order.
pub fn complete_mention(host: &Host, typed: &str) -> Vec<MentionCandidate> {
    let typed = typed.to_lowercase();
    let mut candidates = Vec::new();
    for (server, catalog) in host.offered_catalogs() {
        let resources = catalog.resources.iter().map(|resource| {
            let name = resource.title.as_ref().unwrap_or(&resource.name);
            (&resource.uri, name, resource.description.as_ref())
        });
        let templates = catalog.templates.iter().map(|template| {
            let name = template.title.as_ref().unwrap_or(&template.name);
            (&template.uri_template, name, template.description.as_ref())
        });
        let candidate =
            |(uri, name, description): (&String, &String, Option<&String>)| MentionCandidate {
                text: format!("@{server}:{uri}"),
                description: description.unwrap_or(name).clone(),
            };
        candidates.extend(resources.chain(templates).map(candidate));
    }
    candidates.retain(|candidate| candidate.text.to_lowercase().starts_with(&typed));
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let servers = ["s", "my.docs", "my", "two words"].map(ServerName::new);
        let shown = |mention: Mention| match mention.target {
            MentionTarget::Resource { server, uri } => format!("{server} {uri}"),
            MentionTarget::Unknown(name) => format!("?{name}"),
        };
        find_mentions(text, &servers)
            .into_iter()
            .map(shown)
            .collect()
    }

    #[test]
    fn mentions_are_found_wherever_they_stand() {
        let cases: [(&str, &[&str]); 9] = [
            ("@s:test://text", &["s test://text"]),
            (
                "look at @s:test://a and @my:file:///b.",
                &["s test://a", "my file:///b"],
            ),
            ("(see @s:x://y)", &["s x://y"]),
            ("@s:x://y(z), then", &["s x://y(z)"]),
            ("\"@s:x://y\"?", &["s x://y"]),
            // The longest name counts.
            ("@my.docs:x://y", &["my.docs x://y"]),
            ("@two words:x://y", &["two words x://y"]),
            // Each once.
            ("@s:x://y @s:x://y", &["s x://y"]),
            ("line\n@s:x://ü?q=1#f", &["s x://ü?q=1#f"]),
        ];
        for (text, expected) in cases {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_a_mention_is_left_alone() {
        for text in [
            "ada@s:x://y",
            "@s",
            "@s: hi",
            "@s:",
            "@ s:x",
            "mail me @home: tomorrow",
            "@john:hello",
            "a @ b",
        ] {
            assert_eq!(found(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn a_mention_of_an_unknown_server_is_noticed() {
        assert_eq!(found("@other:file:///x"), ["?other"]);
        assert_eq!(found("@other:readme.md"), ["?other"]);
        assert_eq!(found("@other:docs/readme"), ["?other"]);
        assert_eq!(found("@My.Docs:readme"), ["?My.Docs"]);
        assert_eq!(found("@S:readme"), ["?S"]);
    }
}
