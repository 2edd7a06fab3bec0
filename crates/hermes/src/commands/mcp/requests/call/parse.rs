//! What the words of a call mean: a server, one of its tools, and arguments.

use std::io::Read;

use hermes_config::{ServerName, Settings};
use hermes_mcp::tools::names;
use serde_json::{Map, Value};

use super::super::probe;
use crate::{cli::CallArgs, failure::Failure};

/// The tool that is meant.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::commands) struct CallTarget {
    /// The servers that may have it, the likeliest first; more than one only for registered names.
    pub(in crate::commands) servers: Vec<ServerName>,
    /// By the server's own name for it, or the registered one.
    pub(in crate::commands) tool: String,
}

/// Finds the tool; returns the words after it.
pub(super) fn parse_target<'a>(
    settings: &Settings,
    args: &'a CallArgs,
) -> Result<(CallTarget, &'a [String]), Failure> {
    if let Some(entry) = settings.server(&args.target) {
        let Some((tool, rest)) = args
            .rest
            .split_first()
            .filter(|(word, _)| !is_argument(word))
        else {
            return Err(missing_tool_failure(&entry.name));
        };
        let target = CallTarget {
            servers: vec![entry.name.clone()],
            tool: tool.clone(),
        };
        return Ok((target, rest));
    }
    Ok((parse_tool_name(settings, &args.target)?, &args.rest))
}

/// The tool that `SERVER.TOOL` or a registered name stands for.
pub(in crate::commands) fn parse_tool_name(
    settings: &Settings,
    word: &str,
) -> Result<CallTarget, Failure> {
    if let Some((server, tool)) = split_server_and_tool(settings, word) {
        return Ok(CallTarget {
            servers: vec![server],
            tool: tool.to_owned(),
        });
    }
    let servers = servers_by_prefix(settings, word);
    if !servers.is_empty() {
        return Ok(CallTarget {
            servers,
            tool: word.to_owned(),
        });
    }
    let server = word.split('.').next().unwrap_or(word);
    if settings.server(server).is_some() {
        return Err(missing_tool_failure(&ServerName::new(server)));
    }
    Err(probe::no_such_server(settings, server))
}

/// Server and tool in `SERVER.TOOL`. Server names may hold dots: the longest configured name that fits counts.
pub(in crate::commands) fn split_server_and_tool<'a>(
    settings: &Settings,
    word: &'a str,
) -> Option<(ServerName, &'a str)> {
    let fitting = settings.servers.iter().filter_map(|entry| {
        let tool = word.strip_prefix(entry.name.as_str())?.strip_prefix('.')?;
        (!tool.is_empty()).then_some((entry.name.clone(), tool))
    });
    fitting.min_by_key(|(_, tool)| tool.len())
}

/// The servers whose tools' registered names begin like this one, the longest name first.
fn servers_by_prefix(settings: &Settings, word: &str) -> Vec<ServerName> {
    let has_prefix = |server: &str| {
        let server = names::sanitise(server);
        ["mcp_", "mcp__"].into_iter().any(|first| {
            let separator = &first["mcp".len()..];
            let rest = word
                .strip_prefix(first)
                .and_then(|r| r.strip_prefix(&*server));
            rest.is_some_and(|rest| rest.starts_with(separator) && rest.len() > separator.len())
        })
    };
    let fitting = settings.servers.iter().map(|entry| &entry.name);
    let mut fitting: Vec<ServerName> = fitting
        .filter(|name| has_prefix(name.as_str()))
        .cloned()
        .collect();
    fitting.sort_by_key(|name| std::cmp::Reverse(name.as_str().len()));
    fitting
}

fn missing_tool_failure(server: &ServerName) -> Failure {
    Failure::usage(format!("which tool of `{server}`?"))
        .hint(format!("`hermes mcp tools {server}` lists them"))
}

/// Whether a word is an argument and not a name.
fn is_argument(word: &str) -> bool {
    word.starts_with('{') || word.contains('=')
}

/// The arguments of a call: JSON, `k=v`, `k:=JSON`, `--arg` and `--args-json`.
pub(super) fn parse_arguments(
    args: &CallArgs,
    words: &[String],
) -> Result<Map<String, Value>, Failure> {
    let (objects, pairs): (Vec<&String>, Vec<&String>) =
        words.iter().partition(|word| word.starts_with('{'));
    let text = match (&args.args_json, objects.as_slice()) {
        (None, []) => None,
        (None, [text]) => Some((*text).clone()),
        (Some(source), []) => Some(read_source(source)?),
        _ => {
            return Err(Failure::usage(
                "give the arguments once: as JSON or with `--args-json`",
            ));
        }
    };
    let mut arguments = match text {
        None => Map::new(),
        Some(text) => parse_object(&text)?,
    };
    for pair in &args.arg {
        let (key, value) = pair.split_once('=').ok_or_else(|| {
            Failure::usage(format!("`--arg {pair}`: it must have the form name=value"))
        })?;
        // The tool's own schema turns text into numbers and lists where it wants them.
        arguments.insert(key.to_owned(), Value::String(value.to_owned()));
    }
    insert_pairs(&mut arguments, pairs.into_iter().map(String::as_str))?;
    Ok(arguments)
}

/// Adds `k=v`, whose value is a text unless the schema wants something else, and `k:=JSON`.
pub(in crate::commands) fn insert_pairs<'a>(
    arguments: &mut Map<String, Value>,
    pairs: impl Iterator<Item = &'a str>,
) -> Result<(), Failure> {
    for pair in pairs {
        let split = pair.split_once('=').filter(|(key, _)| !key.is_empty());
        let Some((key, value)) = split else {
            return Err(Failure::usage(format!(
                "`{pair}` is not an argument of the form name=value"
            ))
            .hint("arguments are name=value, name:=JSON, or one JSON object"));
        };
        let (key, value) = match key.strip_suffix(':').filter(|key| !key.is_empty()) {
            None => (key, Value::String(value.to_owned())),
            Some(key) => {
                let value = serde_json::from_str(value).map_err(|error| {
                    Failure::usage(format!("the value of `{key}:=` is not JSON: {error}"))
                })?;
                (key, value)
            }
        };
        arguments.insert(key.to_owned(), value);
    }
    Ok(())
}

fn parse_object(text: &str) -> Result<Map<String, Value>, Failure> {
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(Failure::usage(
            "the arguments must be a JSON object, like '{\"path\": \"/tmp\"}'",
        )),
        Err(error) => Err(
            Failure::usage(format!("the arguments are not JSON: {error}"))
                .hint("single arguments are easier as name=value"),
        ),
    }
}

fn read_source(source: &str) -> Result<String, Failure> {
    if source == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    match source.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path)
            .map_err(|error| Failure::usage(format!("the file `{path}` cannot be read: {error}"))),
        None => Ok(source.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use hermes_config::Variables;
    use serde_json::json;

    use super::*;
    use crate::failure::FailureKind;

    fn settings() -> Settings {
        let text = "mcp_servers: {a: {command: x}, a.b: {command: x}, my-api: {command: x}, my: {command: x}}";
        Settings::parse(text, Variables::default()).unwrap()
    }

    #[test]
    fn a_tool_is_named_with_a_dot_or_as_registered() {
        let settings = settings();
        let parsed = |word: &str| {
            let target = parse_tool_name(&settings, word).unwrap();
            let servers: Vec<String> = target.servers.iter().map(ToString::to_string).collect();
            (servers.join(" "), target.tool)
        };
        assert_eq!(parsed("a.b.c"), ("a.b".into(), "c".into()));
        assert_eq!(parsed("a.c"), ("a".into(), "c".into()));
        for word in ["mcp_my_api_list", "mcp__my_api__list"] {
            assert_eq!(parsed(word).1, word);
        }
        assert_eq!(parsed("mcp_my_api_list").0, "my-api my");
        assert_eq!(parsed("mcp__my_api__list").0, "my-api");
        assert_eq!(
            parse_tool_name(&settings, "a").unwrap_err().kind,
            FailureKind::Usage
        );
        assert_eq!(
            parse_tool_name(&settings, "x.y").unwrap_err().kind,
            FailureKind::NotFound
        );
    }

    #[test]
    fn pairs_are_texts_or_json() {
        let mut arguments = Map::new();
        let pairs = ["a=1", "b:=[1, 2]", "c=x=y", "d="];
        insert_pairs(&mut arguments, pairs.into_iter()).unwrap();
        let request = json!({"a": "1", "b": [1, 2], "c": "x=y", "d": ""});
        assert_eq!(Value::Object(arguments), request);
        for wrong in ["a", "=1", "a:=x"] {
            let refused = insert_pairs(&mut Map::new(), [wrong].into_iter());
            assert_eq!(refused.unwrap_err().kind, FailureKind::Usage, "{wrong}");
        }
    }
}
