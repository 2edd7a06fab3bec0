//! `hermes setup`: a model, a first MCP server, the tokens of messaging platforms. What is there already stays.

use clap::Parser;
use hermes_agent::model::{ModelOverrides, ResolveContext, ResolveError, Selection, resolve_model};
use hermes_config::{Platform, mask, write_variable};
use serde_json::{Value, json};

use super::{model, up};
use crate::{
    cli::{Cli, SetupArgs},
    context::Context,
    failure::{Failure, FailureKind},
    question::{DefaultAnswer, Questions},
};

const NONINTERACTIVE_HINT: &str = "`hermes setup --yes` asks nothing and says what is missing";
/// How often an answer that did not work may be given again.
const MAX_ATTEMPTS: usize = 3;

/// What is not there, and the command that supplies it.
struct MissingPart {
    part: &'static str,
    what: String,
    fix: &'static str,
    /// Whether nothing works without it.
    is_needed: bool,
}

pub(super) fn run(context: &Context, args: &SetupArgs) -> Result<(), Failure> {
    let questions = Questions::new(args.yes || context.output.is_json());
    up::write_first_config(context)?;
    let is_wanted = |part: &str| args.part.as_deref().is_none_or(|wanted| wanted == part);
    if questions.can_ask() {
        if is_wanted("model") {
            ask_model(context, questions)?;
        }
        if is_wanted("server") {
            ask_server(context, questions)?;
        }
        if is_wanted("platforms") {
            ask_platforms(context, questions)?;
        }
    }
    report(context, questions, &is_wanted)
}

fn current_model(context: &Context) -> Result<Result<Selection, ResolveError>, Failure> {
    let settings = context.written_settings()?;
    context.block_on(async {
        let resolve_context = ResolveContext::new(&context.home, &settings);
        Ok(resolve_model(&resolve_context, &ModelOverrides::default()).await)
    })
}

fn ask_model(context: &Context, questions: Questions) -> Result<(), Failure> {
    if let Ok(report) = current_model(context)? {
        let endpoint = &report.endpoint;
        let question = format!(
            "The model is `{}` from {}. Choose another?",
            endpoint.model, endpoint.provider
        );
        if !questions.confirm(&question, DefaultAnswer::No, NONINTERACTIVE_HINT)? {
            return Ok(());
        }
    }
    model::ask(context)
}

fn ask_server(context: &Context, questions: Questions) -> Result<(), Failure> {
    let settings = context.written_settings()?;
    let output = context.output;
    if !settings.servers.is_empty() {
        let names = settings.server_names();
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        output.note(format!("MCP servers: {}", names.join(", ")));
        return Ok(());
    }
    output.note(
        "\nTools come from MCP servers. Type the command of one, such as `uvx mcp-server-time`, or the address of a \
         remote one; `hermes mcp import` imports those of other programs.",
    );
    for _ in 0..MAX_ATTEMPTS {
        let line = questions.text("MCP server (empty: later)", Some(""), NONINTERACTIVE_HINT)?;
        if line.is_empty() {
            return Ok(());
        }
        let name = questions.text("Its name", Some(&suggest_name(&line)), NONINTERACTIVE_HINT)?;
        let command = Cli::try_parse_from(add_arguments(&name, &line))
            .map_err(|error| Failure::usage(error.to_string()))?
            .into_command()?;
        match super::run(context, command) {
            Err(failure) if failure.kind != FailureKind::Interrupted => output.failure(&failure),
            done => return done,
        }
    }
    Ok(())
}

/// `hermes mcp add …` for what was typed.
fn add_arguments(name: &str, line: &str) -> Vec<String> {
    let mut words: Vec<String> = ["hermes", "mcp", "add", name].map(str::to_owned).to_vec();
    if is_address(line) {
        words.extend(["--url".to_owned(), line.to_owned()]);
        return words;
    }
    let mut typed = line.split_whitespace().map(str::to_owned);
    words.push("--command".into());
    words.extend(typed.next());
    let arguments: Vec<String> = typed.collect();
    if !arguments.is_empty() {
        words.push("--args".into());
        words.extend(arguments);
    }
    words
}

fn is_address(line: &str) -> bool {
    line.starts_with("http://") || line.starts_with("https://")
}

/// A short name for a server: of its package or host.
fn suggest_name(line: &str) -> String {
    let last = if is_address(line) {
        let host = line.split('/').nth(2).unwrap_or_default();
        let labels: Vec<&str> = host.split([':', '.']).collect();
        let label = labels
            .iter()
            .find(|label| !matches!(**label, "mcp" | "www" | "api"));
        (*label.unwrap_or(&"server")).to_owned()
    } else {
        let mut words = line
            .split_whitespace()
            .filter(|word| !word.starts_with('-'));
        let program = words.next().unwrap_or_default();
        let runs_packages = ["npx", "uvx", "bunx", "pnpx", "pipx", "docker"].contains(&program);
        let word = if runs_packages { words.next() } else { None };
        let word = word.unwrap_or(program);
        let word = word.rsplit('/').next().unwrap_or(word);
        word.split('@').next().unwrap_or(word).to_owned()
    };
    let short = ["mcp-server-", "server-", "mcp-"]
        .iter()
        .find_map(|prefix| last.strip_prefix(prefix))
        .unwrap_or(&last);
    let short = short.strip_suffix("-mcp").unwrap_or(short);
    if short.is_empty() {
        "server".into()
    } else {
        short.to_owned()
    }
}

fn ask_platforms(context: &Context, questions: Questions) -> Result<(), Failure> {
    let settings = context.written_settings()?;
    let output = context.output;
    let without = Platform::ALL
        .into_iter()
        .filter(|platform| settings.gateway.platform(*platform).token.is_none());
    let without: Vec<Platform> = without.collect();
    if without.is_empty() {
        return Ok(());
    }
    let question = "\nSend messages to Telegram, Discord or Slack?";
    if !questions.confirm(question, DefaultAnswer::No, NONINTERACTIVE_HINT)? {
        return Ok(());
    }
    output.note("`hermes gateway setup` explains where each token comes from, checks it, and asks who may write.");
    for platform in without {
        let question = format!("Token of your {platform} bot (it is not shown; empty: none)");
        let token = questions.hidden(&question, NONINTERACTIVE_HINT)?;
        if token.expose().is_empty() {
            continue;
        }
        let variable = platform.variable("BOT_TOKEN");
        context.home.create()?;
        write_variable(&context.home, &variable, token.expose())?;
        output.note(format!(
            "`{variable}` ({}) is kept in `.env`",
            mask(token.expose())
        ));
    }
    Ok(())
}

/// What there is now, what is missing, and what comes next.
fn report(
    context: &Context,
    questions: Questions,
    is_wanted: &impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    let settings = context.written_settings()?;
    let output = context.output;
    let model = current_model(context)?;
    let platforms: Vec<&str> = Platform::ALL
        .into_iter()
        .filter(|platform| settings.gateway.platform(*platform).token.is_some())
        .map(Platform::name)
        .collect();
    let mut missing = Vec::new();
    if let Err(error) = &model {
        let what = error.to_string();
        missing.push(MissingPart {
            part: "model",
            what: what.lines().next().unwrap_or_default().to_owned(),
            fix: "hermes model NAME --provider PROVIDER",
            is_needed: true,
        });
    }
    if settings.servers.is_empty() {
        missing.push(MissingPart {
            part: "server",
            what: "no MCP server is configured".into(),
            fix: "hermes mcp add NAME --command PROGRAM --args ARGUMENT…",
            is_needed: false,
        });
    }
    if platforms.is_empty() {
        missing.push(MissingPart {
            part: "platforms",
            what: "no messaging platform has a token".into(),
            fix: "hermes gateway setup",
            is_needed: false,
        });
    }
    missing.retain(|missing| is_wanted(missing.part));
    output.line(format!("config: {}", context.home.config_file().display()));
    if let Ok(report) = &model {
        let endpoint = &report.endpoint;
        output.line(format!(
            "model: `{}` from {}",
            endpoint.model, endpoint.provider
        ));
    }
    if !settings.servers.is_empty() {
        output.line(format!("servers: {}", settings.servers.len()));
    }
    if !platforms.is_empty() {
        output.line(format!("platforms: {}", platforms.join(", ")));
    }
    for missing in &missing {
        let word = if missing.is_needed {
            "needed"
        } else {
            "if you like"
        };
        output.line(format!("{word}: {}\n    {}", missing.what, missing.fix));
    }
    let is_ready = !missing.iter().any(|missing| missing.is_needed);
    if is_ready {
        output.line("\nNext: `hermes` talks to the agent, `hermes up` shows the servers, `hermes doctor` checks everything.");
    }
    let needed: Vec<Value> = missing
        .iter()
        .map(|missing| {
            json!({"part": missing.part, "message": missing.what, "fix": missing.fix, "required": missing.is_needed})
        })
        .collect();
    let report = json!({
        "config": context.home.config_file().to_string_lossy(),
        "model": model.as_ref().ok().map(|report| report.endpoint.model.clone()),
        "servers": settings.servers.len(),
        "platforms": platforms,
        "missing": needed,
    });
    if is_ready {
        output.json(report);
        return Ok(());
    }
    let summary = "a model is needed";
    output.json_failure(summary, report);
    // Who was asked knows it.
    if questions.can_ask() {
        return Ok(());
    }
    Err(Failure::new(FailureKind::AlreadyPrinted, summary))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_becomes_a_server_with_a_short_name() {
        for (line, name, arguments) in [
            (
                "uvx mcp-server-time",
                "time",
                "--command uvx --args mcp-server-time",
            ),
            (
                "npx -y @modelcontextprotocol/server-filesystem /tmp",
                "filesystem",
                "--command npx --args -y @modelcontextprotocol/server-filesystem /tmp",
            ),
            (
                "https://mcp.linear.app/sse",
                "linear",
                "--url https://mcp.linear.app/sse",
            ),
            (
                "http://127.0.0.1:8000/mcp",
                "127",
                "--url http://127.0.0.1:8000/mcp",
            ),
            (
                "/opt/tools/notes-mcp",
                "notes",
                "--command /opt/tools/notes-mcp",
            ),
        ] {
            assert_eq!(suggest_name(line), name);
            let given = add_arguments(name, line);
            assert_eq!(
                given.join(" "),
                format!("hermes mcp add {name} {arguments}")
            );
            assert!(Cli::try_parse_from(given).is_ok(), "{line}");
        }
    }
}
