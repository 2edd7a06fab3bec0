//! Adds one server to the configuration: probe, choice of tools, secrets to `.env`, entry to `config.yaml`.

use std::time::Duration;

use hermes_config::{ConfigFile, PinTools, Server, ServerEntry, ServerName, Settings};
use hermes_mcp::{
    LoginAdvice, control,
    control::{ControlRequest, ControlResponse},
    tools::pins::Pins,
};
use serde_json::{Value, json};

use super::secrets;
use crate::{
    commands::mcp::{
        login,
        login::BrowserMode,
        requests::{
            offer,
            offer::{OfferSource, OfferedTool, ServerOffer},
            probe,
            probe::ProbeFailure,
        },
    },
    context::Context,
    failure::{Failure, FailureKind},
    import::Imported,
    output::{Table, Tone},
    question::{ChecklistItem, DefaultAnswer, Questions},
};

/// Timeout for a running process to reload: it stops and starts servers before it answers.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(15);

/// How a server is added.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AddOptions {
    pub(crate) probe: ProbeMode,
    pub(crate) state: InitialState,
    /// `--force`: what fails or is in the way does not matter.
    pub(crate) is_forced: bool,
}

/// Whether the server is connected before it is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeMode {
    Run,
    Skip,
}

/// Whether the server is to be connected from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InitialState {
    Enabled,
    Disabled,
}

/// Makes sure that a name may be used, asking if it is taken.
pub(crate) fn claim_name(
    questions: Questions,
    settings: &Settings,
    name: &str,
    is_forced: bool,
) -> Result<(), Failure> {
    if name.trim().is_empty() || name.chars().any(char::is_control) {
        return Err(Failure::usage("a server needs a name"));
    }
    if is_forced || settings.server(name).is_none() {
        return Ok(());
    }
    let question = format!("There is a server `{name}` already. Replace it?");
    if questions.confirm(&question, DefaultAnswer::No, "`--force` replaces it")? {
        return Ok(());
    }
    Err(
        Failure::failed(format!("there is a server `{name}` already; it stays"))
            .about(ServerName::new(name))
            .hint("choose another name, or replace it with `--force`"),
    )
}

/// Probes a new server and writes it, or says why not.
pub(crate) fn add_server(
    context: &Context,
    questions: Questions,
    settings: &Settings,
    server: Imported,
    options: AddOptions,
) -> Result<(), Failure> {
    let mut servers = [server];
    secrets::assign_variables(settings, &mut servers);
    let [mut server] = servers;
    let name = ServerName::new(&server.name);
    let mut warnings = std::mem::take(&mut server.notes);

    let written = settings;
    let mut settings = with_server(written, &server, &mut warnings)?;
    let mut state = options.state;
    let mut probed = probe(context, &settings, &name, options.probe);
    if let Err(unanswered) = &probed
        && agrees_to_log_in(questions, unanswered)?
    {
        server.entry["auth"] = "oauth".into();
        settings = with_server(written, &server, &mut Vec::new())?;
    }
    if let Err(unanswered) = &probed
        && wants_login(&settings, &name, unanswered)
        && questions.can_ask()
    {
        probed = probe_logged_in(context, &settings, &name, options.probe);
    }
    let offer = match probed {
        Ok(offer) => offer,
        Err(unanswered) if wants_login(&settings, &name, &unanswered) => {
            warnings.push(format!(
                "log in before it is used: `hermes mcp login {name}`"
            ));
            None
        }
        Err(unanswered) => {
            warnings.push(confirm_failed_probe(
                context, questions, options, unanswered,
            )?);
            state = InitialState::Disabled;
            None
        }
    };
    let tools = match &offer {
        Some(offer) => {
            warnings.extend(offer.warnings.iter().cloned());
            print_offer(context, &settings, offer);
            choose_tools(questions, &settings, offer, &mut server.entry)?;
            offered_tools_json(&settings, offer, &server)
        }
        None => Vec::new(),
    };
    if state == InitialState::Disabled {
        server.entry["enabled"] = false.into();
    }

    context.home.create()?;
    let mut file = ConfigFile::open(&context.home)?;
    file.set_server(name.as_str(), &server.entry);
    secrets::write_variables(context, &server.variables)?;
    pin_tools(context, &name, offer.as_ref())?;
    self::save_file(context, &file)?;
    for warning in &warnings {
        context.output.warning(warning);
    }
    let note = match state {
        InitialState::Enabled => format!("Saved `{name}`."),
        InitialState::Disabled => {
            format!("Saved `{name}`, disabled. `hermes mcp enable {name}` switches it on.")
        }
    };
    context.output.note(note);
    context.output.json(json!({
        "server": name, "saved": true, "tools": tools, "warnings": warnings,
    }));
    Ok(())
}

/// What was shown is what was accepted. Pins of an earlier server of that name say nothing about this one.
fn pin_tools(
    context: &Context,
    name: &ServerName,
    offer: Option<&ServerOffer>,
) -> Result<(), Failure> {
    let pins = Pins::for_home(&context.home);
    pins.forget(name)?;
    match offer {
        Some(offer) if offer.server.pin_tools != PinTools::Off => {
            pins.accept(name, &offer.catalog.tools)?;
        }
        _ => {}
    }
    Ok(())
}

/// Saves an edited file and has running processes read it.
pub(crate) fn save_file(context: &Context, file: &ConfigFile) -> Result<(), Failure> {
    context.home.create()?;
    file.save()?;
    reload_running(context);
    Ok(())
}

/// Has running processes of this home look at its files again.
pub(in crate::commands) fn reload_running(context: &Context) {
    let replies = control::query_processes(&context.home, &ControlRequest::Reload, RELOAD_TIMEOUT);
    let reloaded = replies
        .iter()
        .filter(|reply| matches!(reply.response, ControlResponse::Reloaded { .. }))
        .count();
    match reloaded {
        0 => {}
        1 => context
            .output
            .note("The running hermes process has reloaded."),
        many => context
            .output
            .note(format!("{many} running hermes processes have reloaded.")),
    }
}

/// The settings with nothing but the new server in them, as it will be once saved.
fn with_server(
    settings: &Settings,
    server: &Imported,
    warnings: &mut Vec<String>,
) -> Result<Settings, Failure> {
    let variables = secrets::with_variables(settings, &server.variables);
    let (entry, odd) = ServerEntry::parse(&server.name, server.entry.clone(), &variables);
    warnings.extend(odd.iter().map(ToString::to_string));
    if let Err(problem) = &entry.server {
        return Err(Failure::usage(format!("{problem}")).about(entry.name));
    }
    Ok(Settings {
        servers: vec![entry],
        variables,
        ..settings.clone()
    })
}

/// Whether the person at the terminal wants to log in to a server that turned out to want it.
fn agrees_to_log_in(questions: Questions, unanswered: &ProbeFailure) -> Result<bool, Failure> {
    if !questions.can_ask() || !matches!(unanswered.advice, Some(LoginAdvice::LogInOrSetHeaders(_)))
    {
        return Ok(false);
    }
    questions.confirm(
        "The server needs a login. Log in now?",
        DefaultAnswer::Yes,
        "",
    )
}

/// Logs in, and then asks the server what it offers.
fn probe_logged_in(
    context: &Context,
    settings: &Settings,
    name: &ServerName,
    wish: ProbeMode,
) -> Result<Option<ServerOffer>, ProbeFailure> {
    let entry = probe::find_entry(settings, name.as_str())?;
    match login::log_in_quietly(context, settings, entry, None, BrowserMode::Open) {
        Ok(_) => probe(context, settings, name, wish),
        Err(failure) if failure.kind == FailureKind::Interrupted => Err(failure.into()),
        Err(failure) => {
            context.output.warning(&failure.message);
            Err(Failure::new(FailureKind::NeedsLogin, failure.message).into())
        }
    }
}

/// What the server offers; `None` if it is not to be asked.
fn probe(
    context: &Context,
    settings: &Settings,
    name: &ServerName,
    probe: ProbeMode,
) -> Result<Option<ServerOffer>, ProbeFailure> {
    if probe == ProbeMode::Skip || context.is_safe_mode() {
        return Ok(None);
    }
    usable_server(settings, name)?;
    // What is found is remembered, and what the server prints is kept: there has to be a place for it.
    context.home.create().map_err(Failure::from)?;
    let offers = context.block_on(offer::query_servers(context, settings, &[name]))?;
    let offer = offers.into_iter().next().transpose();
    if offer.is_err() {
        // References that stay as they are usually explain why a server fails.
        let entry = probe::find_entry(settings, name.as_str())?;
        probe::warn_of_unset_variables(context, entry, settings);
    }
    offer
}

fn usable_server<'a>(settings: &'a Settings, name: &ServerName) -> Result<&'a Server, Failure> {
    let entry = settings.server(name.as_str());
    let server = entry.and_then(|entry| entry.server.as_ref().ok());
    server.ok_or_else(|| Failure::usage(format!("server `{name}` cannot be used")))
}

/// A server that has its users log in is not broken before they did.
fn wants_login(settings: &Settings, name: &ServerName, unanswered: &ProbeFailure) -> bool {
    unanswered.failure.kind == FailureKind::NeedsLogin
        && usable_server(settings, name).is_ok_and(|server| server.auth.is_some())
}

/// A server that failed is saved only if somebody says so.
fn confirm_failed_probe(
    context: &Context,
    questions: Questions,
    options: AddOptions,
    unanswered: ProbeFailure,
) -> Result<String, Failure> {
    let kind = unanswered.failure.kind;
    if kind == FailureKind::Interrupted {
        return Err(*unanswered.failure);
    }
    let is_agreed = options.is_forced
        || questions.can_ask() && {
            // The advice is for servers that are saved.
            context.output.warning(&unanswered.failure.message);
            let question = "Save it anyway, disabled?";
            questions.confirm(question, DefaultAnswer::No, "`--force` saves it")?
        };
    if is_agreed {
        return Ok(Failure::from(unanswered).message);
    }
    let refusal = if questions.can_ask() {
        Failure::new(kind, "nothing was saved")
    } else {
        unanswered
            .failure
            .hint("nothing was saved; `--force` saves it disabled, `--no-test` without connecting")
    };
    Err(match kind {
        FailureKind::NeedsLogin => {
            refusal.hint("add `--auth oauth` to log in, or `--auth header` to give a token")
        }
        _ => refusal,
    })
}

fn print_offer(context: &Context, settings: &Settings, offer: &ServerOffer) {
    let tools = offer::offered_tools(settings, std::slice::from_ref(offer));
    if let OfferSource::Live(elapsed) = offer.source {
        context.output.note(format!(
            "`{}` answered within {} ms and has {}.",
            offer.server.name,
            elapsed.as_millis(),
            offer::describe_tool_count(tools.len(), offer.count_utilities(settings))
        ));
    }
    if tools.is_empty() {
        return;
    }
    let mut table = Table::new(&["TOOL", "DESCRIPTION"]);
    for tool in &tools {
        let tone = if tool.is_included() {
            Tone::Strong
        } else {
            Tone::Faint
        };
        table.row([
            (tool.tool.name.to_string(), tone),
            (tool.description().to_owned(), Tone::Faint),
        ]);
    }
    context.output.table(&table);
}

/// Lets the person choose among the tools, unless the entry says already which are wanted.
fn choose_tools(
    questions: Questions,
    settings: &Settings,
    offer: &ServerOffer,
    entry: &mut Value,
) -> Result<(), Failure> {
    let tools = offer::offered_tools(settings, std::slice::from_ref(offer));
    if entry.get("tools").is_some() || tools.is_empty() || !questions.can_ask() {
        return Ok(());
    }
    let question = format!("Offer all of its {}?", count_tools(tools.len()));
    if questions.confirm(
        &format!("{question} `n` lets you choose."),
        DefaultAnswer::Yes,
        "",
    )? {
        return Ok(());
    }
    let items: Vec<ChecklistItem> = tools.iter().map(checklist_item).collect();
    let all: Vec<usize> = (0..items.len()).collect();
    let chosen = questions.select("Offer these tools:", &items, &all, "")?;
    if chosen != all {
        let names = chosen.iter().map(|index| items[*index].name.clone());
        entry["tools"] = json!({"include": names.collect::<Vec<_>>()});
    }
    Ok(())
}

/// A tool as a line of a checklist.
pub(crate) fn checklist_item(tool: &OfferedTool<'_>) -> ChecklistItem {
    ChecklistItem {
        name: tool.tool.name.to_string(),
        description: tool.description().to_owned(),
    }
}

/// The tools as they are offered by the entry that is saved.
fn offered_tools_json(settings: &Settings, offer: &ServerOffer, server: &Imported) -> Vec<Value> {
    let (entry, _) = ServerEntry::parse(&server.name, server.entry.clone(), &settings.variables);
    let saved = ServerOffer {
        server: entry
            .server
            .map_or_else(|_| offer.server.clone(), std::sync::Arc::new),
        catalog: offer.catalog.clone(),
        source: offer.source,
        warnings: Vec::new(),
    };
    let tools = offer::offered_tools(settings, std::slice::from_ref(&saved));
    tools.iter().map(OfferedTool::to_json).collect()
}

/// `1 tool`, `2 tools`.
pub(crate) fn count_tools(tools: usize) -> String {
    match tools {
        1 => "1 tool".to_owned(),
        many => format!("{many} tools"),
    }
}
