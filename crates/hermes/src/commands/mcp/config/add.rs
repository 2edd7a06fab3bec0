//! `hermes mcp add`: from the flags to an entry.

use std::io::{IsTerminal, Read};

use hermes_config::Secret;
use serde_json::{Map, Number, Value, json};

use super::save::{self, AddOptions, InitialState, ProbeMode};
use crate::{
    catalog::{built_in, built_in::PRESETS},
    cli::AddArgs,
    context::Context,
    failure::{Failure, FailureKind},
    import::{Imported, Variable, VariableKind, move_secrets, variable_name},
    question::Questions,
};

pub(crate) fn run(context: &Context, args: &AddArgs) -> Result<(), Failure> {
    let questions = Questions::new(args.yes);
    let entry = build_entry(args)?;
    let settings = context.written_settings()?;
    save::claim_name(questions, &settings, &args.name, args.force)?;
    let mut server = Imported {
        name: args.name.clone(),
        entry: Value::Object(entry),
        variables: Vec::new(),
        notes: Vec::new(),
    };
    match args.auth.as_deref() {
        Some("header") => add_token(&mut server, &read_token(questions)?),
        Some(auth) => server.entry["auth"] = auth.into(),
        None => {}
    }
    move_secrets(&mut server);
    let options = AddOptions {
        probe: if args.no_test {
            ProbeMode::Skip
        } else {
            ProbeMode::Run
        },
        state: if args.disabled {
            InitialState::Disabled
        } else {
            InitialState::Enabled
        },
        is_forced: args.force,
    };
    save::add_server(context, questions, &settings, server, options)
}

/// The entry as far as the flags say it, in the order it will be written.
fn build_entry(args: &AddArgs) -> Result<Map<String, Value>, Failure> {
    let mut entry = match args.url.as_ref().or(args.target.as_ref()) {
        Some(url) => build_remote_entry(args, url)?,
        None => build_local_entry(args)?,
    };
    let mut seconds = |key: &str, flag: &str, value: Option<f64>| {
        if let Some(value) = value {
            entry.insert(key.to_owned(), seconds_number(value, flag)?.into());
        }
        Ok::<_, Failure>(())
    };
    seconds("timeout", "--timeout", args.timeout)?;
    seconds("connect_timeout", "--connect-timeout", args.connect_timeout)?;
    if args.parallel {
        entry.insert("supports_parallel_tool_calls".to_owned(), true.into());
    }
    let mut tools = Map::new();
    for (key, patterns) in [("include", &args.include), ("exclude", &args.exclude)] {
        if !patterns.is_empty() {
            tools.insert(key.to_owned(), json!(patterns));
        }
    }
    if !tools.is_empty() {
        entry.insert("tools".to_owned(), tools.into());
    }
    Ok(entry)
}

fn build_remote_entry(args: &AddArgs, url: &str) -> Result<Map<String, Value>, Failure> {
    if !args.env.is_empty() {
        return Err(Failure::usage(
            "`--env` is for local servers; a remote one takes `--header K=V`",
        ));
    }
    if args.target.is_some() && !url.contains("://") && !url.starts_with("${") {
        let message = format!("`{url}` is not an address, which begins with `https://`");
        let name = &args.name;
        return Err(Failure::usage(message).hint(format!(
            "a program goes after two dashes: `hermes mcp add {name} -- {url} …`"
        )));
    }
    if !args.args.is_empty() || args.cwd.is_some() {
        return Err(Failure::usage("`--args` and `--cwd` are for local servers"));
    }
    let headers = parse_pairs(&args.header, &['=', ':'], "--header")?;
    let sets_authorization = headers
        .keys()
        .any(|name| name.eq_ignore_ascii_case("authorization"));
    if args.auth.as_deref() == Some("header") && sets_authorization {
        return Err(Failure::usage(
            "`--auth header` sets `Authorization` itself; leave one of the two out",
        ));
    }
    let mut entry = Map::from_iter([("url".to_owned(), url.into())]);
    if !headers.is_empty() {
        entry.insert("headers".to_owned(), headers.into());
    }
    Ok(entry)
}

fn build_local_entry(args: &AddArgs) -> Result<Map<String, Value>, Failure> {
    if !args.header.is_empty() || args.auth.is_some() {
        return Err(Failure::usage(
            "`--header` and `--auth` are for remote servers; a local one takes `--env K=V`",
        ));
    }
    let mut entry = match &args.preset {
        Some(preset) => build_preset_entry(preset)?,
        None => Map::new(),
    };
    let (program, after) = match args.program.split_first() {
        Some((program, after)) => (Some(program), after),
        None => (args.command.as_ref(), args.args.as_slice()),
    };
    if let Some(command) = program {
        entry.insert("command".to_owned(), command.trim().into());
    }
    if entry.get("command").is_none_or(|command| command == "") {
        return Err(
            Failure::usage("say how to reach it: an address, a program after `--`, or `--preset`")
                .hint("for example `hermes mcp add time -- uvx mcp-server-time`, or `hermes mcp add docs https://docs.example.com/mcp`"),
        );
    }
    if !after.is_empty() {
        entry.insert("args".to_owned(), json!(after));
    }
    let env = parse_pairs(&args.env, &['='], "--env")?;
    if !env.is_empty() {
        entry.insert("env".to_owned(), env.into());
    }
    if let Some(cwd) = &args.cwd {
        entry.insert("cwd".to_owned(), cwd.as_str().into());
    }
    Ok(entry)
}

fn build_preset_entry(name: &str) -> Result<Map<String, Value>, Failure> {
    let preset = built_in::find_preset(name).ok_or_else(|| {
        let known = PRESETS.iter().map(|preset| preset.name.to_owned());
        Failure::new(
            FailureKind::NotFound,
            format!("there is no preset `{name}`"),
        )
        .suggest_name(name, "presets", &known.collect::<Vec<_>>())
    })?;
    match preset.entry() {
        Value::Object(entry) => Ok(entry),
        _ => Ok(Map::new()),
    }
}

/// `K=V` pairs in order. The message does not quote one that is wrong: it may be a secret.
fn parse_pairs(
    given: &[String],
    marks: &[char],
    flag: &str,
) -> Result<Map<String, Value>, Failure> {
    let mut pairs = Map::new();
    for pair in given {
        let split = pair.split_once(|character| marks.contains(&character));
        let (name, value) = split
            .map(|(name, value)| (name.trim(), value.trim()))
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| Failure::usage(format!("`{flag}` takes K=V")))?;
        pairs.insert(name.to_owned(), value.into());
    }
    Ok(pairs)
}

/// Whole seconds are written without a fraction.
fn seconds_number(seconds: f64, flag: &str) -> Result<Number, Failure> {
    let wrong = || Failure::usage(format!("`{flag}` takes a number of seconds above 0"));
    if !(seconds.is_finite() && seconds > 0.0) {
        return Err(wrong());
    }
    let text = seconds.to_string();
    let whole = text.parse::<u64>().map(Number::from).ok();
    whole
        .or_else(|| Number::from_f64(seconds))
        .ok_or_else(wrong)
}

/// The token for `--auth header`: typed unseen, or read from stdin.
fn read_token(questions: Questions) -> Result<Secret<String>, Failure> {
    let instead = "send it on stdin: `printf %s \"$TOKEN\" | hermes mcp add …`";
    let token = if std::io::stdin().is_terminal() {
        questions.hidden("Token (it is not shown)", instead)?
    } else {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        Secret::new(text)
    };
    let token = strip_scheme(token.expose().trim()).to_owned();
    if token.is_empty() {
        let message = "`--auth header` needs a token";
        return Err(Failure::new(FailureKind::AnswerNeeded, message).hint(instead));
    }
    if token.contains(char::is_whitespace) {
        return Err(Failure::usage("a token is one word, and stdin has more"));
    }
    Ok(Secret::new(token))
}

/// People paste the whole header.
fn strip_scheme(token: &str) -> &str {
    match token.split_at_checked("Bearer ".len()) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer ") => rest.trim(),
        _ => token,
    }
}

/// The token goes to `.env`, its reference into the header.
fn add_token(server: &mut Imported, token: &Secret<String>) {
    let variable = Variable {
        name: variable_name(&["mcp", &server.name, "api_key"]),
        value: token.expose().clone(),
        kind: VariableKind::Value,
    };
    let header = format!("Bearer {}", variable.reference());
    match &mut server.entry["headers"] {
        Value::Object(headers) => {
            headers.insert("Authorization".to_owned(), header.into());
        }
        other => *other = json!({"Authorization": header}),
    }
    server.variables.push(variable);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_seconds_have_no_fraction() {
        let written = |seconds| seconds_number(seconds, "--timeout").unwrap().to_string();
        assert_eq!(written(30.0), "30");
        assert_eq!(written(2.5), "2.5");
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(seconds_number(wrong, "--timeout").is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_header_is_split_at_its_first_mark() {
        let given = ["A=b=c".to_owned(), "D: e:f".to_owned()];
        let pairs = parse_pairs(&given, &['=', ':'], "--header").unwrap();
        assert_eq!(Value::Object(pairs), json!({"A": "b=c", "D": "e:f"}));
    }

    #[test]
    fn a_pasted_scheme_is_taken_off() {
        assert_eq!(strip_scheme("bearer  abc"), "abc");
        assert_eq!(strip_scheme("Bearerabc"), "Bearerabc");
        assert_eq!(strip_scheme("ab"), "ab");
    }
}
