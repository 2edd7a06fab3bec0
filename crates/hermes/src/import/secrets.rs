//! Finds secrets written into an entry and moves them out, to `.env`.

use serde_json::{Map, Value};

use super::{
    Imported,
    variables::{Variable, VariableKind, is_variable_name, variable_name},
};

/// What was taken out of an entry.
#[derive(Debug, Default)]
pub(super) struct MovedSecrets {
    pub(super) variables: Vec<Variable>,
    pub(super) notes: Vec<String>,
}

/// Replaces every literal secret of a server's entry by a reference; the values become its variables.
pub fn move_secrets(server: &mut Imported) {
    if let Value::Object(entry) = &mut server.entry {
        let moved = move_out(&server.name, entry);
        server.variables.extend(moved.variables);
        server.notes.extend(moved.notes);
    }
}

/// Replaces every literal secret of an entry by a reference.
pub(super) fn move_out(server: &str, entry: &mut Map<String, Value>) -> MovedSecrets {
    let mut mover = SecretMover {
        server,
        moved: MovedSecrets::default(),
    };
    if let Some(Value::Object(env)) = entry.get_mut("env") {
        for (name, value) in texts(env) {
            mover.move_variable(name, value);
        }
    }
    if let Some(Value::Object(headers)) = entry.get_mut("headers") {
        for (name, value) in texts(headers) {
            mover.move_header(name, value);
        }
    }
    if let Some(Value::Object(oauth)) = entry.get_mut("oauth") {
        for (name, value) in texts(oauth).filter(|(name, _)| *name == "client_secret") {
            mover.move_whole(name, value);
        }
    }
    if let Some(Value::Array(args)) = entry.get_mut("args") {
        mover.move_arguments(args);
    }
    if let Some(Value::String(url)) = entry.get_mut("url") {
        mover.move_query(url);
    }
    mover.moved
}

struct SecretMover<'a> {
    server: &'a str,
    moved: MovedSecrets,
}

impl SecretMover<'_> {
    /// An environment variable keeps its name, so that two programs mean the same by it.
    fn move_variable(&mut self, name: &str, value: &mut String) {
        if is_secret(name, value) {
            if is_variable_name(name) {
                self.move_as(name.to_owned(), value, 0);
            } else {
                self.move_whole(name, value);
            }
        }
    }

    /// The scheme of an `Authorization` stays where it is.
    fn move_header(&mut self, name: &str, value: &mut String) {
        let scheme = scheme_length(value);
        if is_secret(name, &value[scheme..]) {
            self.move_as(self.own_name(name), value, scheme);
        }
    }

    /// `--api-key VALUE`, `--api-key=VALUE`, `--header "Name: VALUE"`, or a value that is plainly a key.
    fn move_arguments(&mut self, args: &mut [Value]) {
        let mut flag = String::new();
        for arg in args {
            let Value::String(text) = arg else { continue };
            let previous = std::mem::take(&mut flag);
            if let Some((name, value)) = text.split_once('=').filter(|_| text.starts_with('-')) {
                if is_secret(name, value) {
                    let start = name.len() + 1;
                    self.move_as(self.own_name(name), text, start);
                }
            } else if text.starts_with('-') {
                flag.clone_from(text);
            } else if let Some((name, value)) = header_line(text) {
                let start = text.len() - value.len();
                let start = start + scheme_length(&text[start..]);
                if is_secret(name, &text[start..]) {
                    self.move_as(self.own_name(name), text, start);
                }
            } else if is_secret(&previous, text) {
                let name = if previous.is_empty() {
                    "argument"
                } else {
                    &previous
                };
                self.move_whole(name, text);
            }
        }
    }

    /// `?api_key=VALUE` in an address.
    fn move_query(&mut self, url: &mut String) {
        let Some(start) = url.find('?').map(|mark| mark + 1) else {
            return;
        };
        let fields: Vec<_> = url[start..].split('&').map(str::to_owned).collect();
        let fields = fields.into_iter().map(|mut field| {
            if let Some((name, value)) = field
                .split_once('=')
                .filter(|(name, value)| is_secret(name, value))
            {
                let (name, start) = (self.own_name(name), field.len() - value.len());
                self.move_as(name, &mut field, start);
            }
            field
        });
        let fields = fields.collect::<Vec<_>>().join("&");
        url.replace_range(start.., &fields);
    }

    fn move_whole(&mut self, name: &str, value: &mut String) {
        if !value.contains("${") && !value.is_empty() {
            self.move_as(self.own_name(name), value, 0);
        }
    }

    /// Moves `text[start..]`.
    fn move_as(&mut self, name: String, text: &mut String, start: usize) {
        if text.contains('\n') {
            // A line of `.env` is one line.
            self.moved.notes.push(format!(
                "`{name}` spans several lines and stays in the entry"
            ));
            return;
        }
        let variable = Variable {
            name,
            value: text.split_off(start),
            kind: VariableKind::Value,
        };
        text.push_str(&variable.reference());
        self.moved.variables.push(variable);
    }

    fn own_name(&self, name: &str) -> String {
        variable_name(&["mcp", self.server, name])
    }
}

fn texts(members: &mut Map<String, Value>) -> impl Iterator<Item = (&str, &mut String)> {
    members.iter_mut().filter_map(|(name, value)| match value {
        Value::String(text) => Some((name.as_str(), text)),
        _ => None,
    })
}

/// Whether a literal is a secret, judged by what it is called and how it looks.
fn is_secret(name: &str, value: &str) -> bool {
    if value.trim().is_empty() || value.contains("${") {
        return false;
    }
    looks_like_key(value) || (is_secret_name(name) && !is_plain_setting(value))
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_uppercase();
    [
        "KEY",
        "TOKEN",
        "SECRET",
        "PASS",
        "AUTH",
        "COOKIE",
        "CREDENTIAL",
    ]
    .iter()
    .any(|word| name.contains(word))
}

/// Switches and paths, whatever they are called: `AUTH_ENABLED=true`, `KEY_FILE=/etc/key.pem`.
fn is_plain_setting(value: &str) -> bool {
    const SWITCHES: [&str; 7] = ["true", "false", "yes", "no", "on", "off", "none"];
    const PATHS: [&str; 13] = [
        "~/", "./", "../", "/home/", "/Users/", "/root/", "/etc/", "/run/", "/usr/", "/var/",
        "/opt/", "/tmp/", "C:\\",
    ];
    SWITCHES.contains(&value.to_lowercase().as_str())
        || PATHS.iter().any(|start| value.starts_with(start))
}

/// The forms in which well-known services hand out keys, JSON web tokens, and addresses with a password in them.
fn looks_like_key(value: &str) -> bool {
    const STARTS: [&str; 26] = [
        "sk-",
        "sk_live_",
        "sk_test_",
        "rk_live_",
        "pk_live_",
        "ghp_",
        "gho_",
        "ghu_",
        "ghs_",
        "ghr_",
        "github_pat_",
        "glpat-",
        "xoxb-",
        "xoxp-",
        "xapp-",
        "AKIA",
        "ASIA",
        "AIza",
        "ya29.",
        "hf_",
        "npm_",
        "pypi-",
        "lin_api_",
        "ntn_",
        "figd_",
        "tvly-",
    ];
    let is_one_word = value.len() >= 16 && !value.contains(char::is_whitespace);
    let is_web_token = value.starts_with("eyJ") && value.matches('.').count() == 2;
    is_one_word
        && (is_web_token
            || has_password(value)
            || STARTS.iter().any(|start| value.starts_with(start)))
}

/// `postgres://user:password@host/`
fn has_password(value: &str) -> bool {
    let Some((_, address)) = value.split_once("://") else {
        return false;
    };
    let authority = address.split('/').next().unwrap_or_default();
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    user.and_then(|user| user.split_once(':'))
        .is_some_and(|(_, password)| !password.is_empty())
}

/// The length of `Bearer ` and the like.
fn scheme_length(value: &str) -> usize {
    let Some((scheme, _)) = value.split_once(' ') else {
        return 0;
    };
    let known = ["bearer", "basic", "token", "apikey", "bot"];
    if known.contains(&scheme.to_lowercase().as_str()) {
        scheme.len() + 1
    } else {
        0
    }
}

/// `Name: value`, as it is handed to programs that take headers as arguments.
fn header_line(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once(':')?;
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '-';
    let value = value.trim_start();
    (!name.is_empty() && name.chars().all(is_name) && !value.starts_with("//"))
        .then_some((name, value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn moved(entry: Value) -> (Value, Vec<(String, String)>) {
        let Value::Object(mut entry) = entry else {
            panic!("an entry is an object")
        };
        let moved = move_out("my-api", &mut entry);
        let variables = moved
            .variables
            .into_iter()
            .map(|variable| (variable.name, variable.value));
        (entry.into(), variables.collect())
    }

    fn owned<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
        pairs
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec()
    }

    #[test]
    fn secrets_of_the_environment_move_under_their_own_name() {
        let (entry, variables) = moved(json!({"command": "x", "env": {
            "OPENAI_API_KEY": "abc123", "DB_PASSWORD": "hunter22", "PLAIN": "ghp_0123456789abcdefghij",
            "LOG_LEVEL": "debug", "AUTH_ENABLED": "true", "KEY_FILE": "/etc/key.pem", "EMPTY_TOKEN": "",
            "REFERENCED_TOKEN": "${env:OTHER}",
        }}));
        assert_eq!(
            entry["env"],
            json!({
                "OPENAI_API_KEY": "${OPENAI_API_KEY}", "DB_PASSWORD": "${DB_PASSWORD}", "PLAIN": "${PLAIN}",
                "LOG_LEVEL": "debug", "AUTH_ENABLED": "true", "KEY_FILE": "/etc/key.pem", "EMPTY_TOKEN": "",
                "REFERENCED_TOKEN": "${env:OTHER}",
            })
        );
        let expected = owned([
            ("OPENAI_API_KEY", "abc123"),
            ("DB_PASSWORD", "hunter22"),
            ("PLAIN", "ghp_0123456789abcdefghij"),
        ]);
        assert_eq!(variables, expected);
    }

    #[test]
    fn a_header_keeps_its_scheme() {
        let (entry, variables) = moved(json!({"url": "https://x", "headers": {
            "Authorization": "Bearer abc", "X-Api-Key": "def", "Accept": "text/plain", "Cookie": "a=${B}",
        }}));
        assert_eq!(
            entry["headers"],
            json!({
                "Authorization": "Bearer ${MCP_MY_API_AUTHORIZATION}", "X-Api-Key": "${MCP_MY_API_X_API_KEY}",
                "Accept": "text/plain", "Cookie": "a=${B}",
            })
        );
        let expected = owned([
            ("MCP_MY_API_AUTHORIZATION", "abc"),
            ("MCP_MY_API_X_API_KEY", "def"),
        ]);
        assert_eq!(variables, expected);
    }

    #[test]
    fn secrets_among_arguments_move_too() {
        let (entry, variables) = moved(json!({"command": "npx", "args": [
            "-y", "mcp-remote", "https://x/mcp", "--header", "Authorization: Bearer abc", "--api-key", "def",
            "--token=ghi", "--port", "8080", "postgres://ada:pw@localhost/db",
        ]}));
        assert_eq!(
            entry["args"],
            json!([
                "-y",
                "mcp-remote",
                "https://x/mcp",
                "--header",
                "Authorization: Bearer ${MCP_MY_API_AUTHORIZATION}",
                "--api-key",
                "${MCP_MY_API_API_KEY}",
                "--token=${MCP_MY_API_TOKEN}",
                "--port",
                "8080",
                "${MCP_MY_API_ARGUMENT}",
            ])
        );
        let values: Vec<_> = variables.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(
            values,
            ["abc", "def", "ghi", "postgres://ada:pw@localhost/db"]
        );
    }

    #[test]
    fn a_key_in_an_address_moves() {
        let (entry, variables) = moved(json!({"url": "https://x/mcp?profile=p&api_key=abc&v=1"}));
        assert_eq!(
            entry["url"],
            "https://x/mcp?profile=p&api_key=${MCP_MY_API_API_KEY}&v=1"
        );
        assert_eq!(variables, owned([("MCP_MY_API_API_KEY", "abc")]));
    }

    #[test]
    fn a_client_secret_moves_and_the_client_id_stays() {
        let (entry, variables) =
            moved(json!({"url": "https://x", "oauth": {"client_id": "me", "client_secret": "s"}}));
        assert_eq!(
            entry["oauth"],
            json!({"client_id": "me", "client_secret": "${MCP_MY_API_CLIENT_SECRET}"})
        );
        assert_eq!(variables, owned([("MCP_MY_API_CLIENT_SECRET", "s")]));
    }

    #[test]
    fn what_does_not_fit_on_a_line_stays_and_is_noted() {
        let mut entry = json!({"env": {"PRIVATE_KEY": "-----BEGIN\nabc"}});
        let moved = move_out("x", entry.as_object_mut().unwrap());
        assert_eq!(entry["env"]["PRIVATE_KEY"], "-----BEGIN\nabc");
        assert!(moved.variables.is_empty());
        assert!(moved.notes[0].contains("PRIVATE_KEY"));
    }
}
