//! The parts of a home, each in one line.

use hermes_agent::{
    model::{ModelOverrides, ResolveContext, resolve_model},
    tools::terminal::{CommandBounds, CommandSandbox, Confinement},
};
use hermes_config::{Home, SecretStore, Settings, SettingsError};
use hermes_gateway::instance;
use hermes_store::{Access, Store, StoreError, cron::CronFile};

use super::{super::mcp, HomeCheck};
use crate::{
    cli::HubArgs,
    commands::{
        gateway::accounts::configured_labels,
        hub::client::{HubCall, HubClient},
        state::pluralize,
    },
    context::Context,
    failure::Failure,
};

const CONFIG: &str = "config";
const SECRETS: &str = "secrets";

pub(super) fn unreadable(error: &SettingsError) -> HomeCheck {
    HomeCheck::fail(CONFIG, error.to_string())
        .fix("`hermes config edit` opens it; until it can be read, it has no effect")
}

pub(super) fn config(home: &Home, settings: &Settings) -> HomeCheck {
    let path = home.config_file();
    let path = path.display();
    if !home.config_file().exists() {
        return HomeCheck::warn(CONFIG, format!("{path} does not exist: the defaults apply"))
            .fix("`hermes setup` writes one and asks for the rest");
    }
    match settings.warnings.as_slice() {
        [] => HomeCheck::ok(CONFIG, path.to_string()),
        [only] => HomeCheck::warn(CONFIG, only.to_string()).fix("`hermes config edit` opens it"),
        [first, rest @ ..] => HomeCheck::warn(CONFIG, format!("{first} (and {} more)", rest.len()))
            .fix("`hermes config check` lists them, `hermes config edit` opens it"),
    }
}

pub(super) fn secrets(home: &Home, settings: &Settings) -> HomeCheck {
    let env = home.env_file();
    if let Some(mode) = readable_by_others(&env) {
        return HomeCheck::warn(
            SECRETS,
            format!("{} can be read by others (mode {mode:o})", env.display()),
        )
        .fix(format!("chmod 600 {}", env.display()));
    }
    let kept = SecretStore::for_user(home, &settings.variables).list();
    match kept {
        Err(error) => HomeCheck::fail(SECRETS, error.to_string()).fix(
            "`hermes secret list` tries again; a secret that cannot be read must be set again",
        ),
        Ok(kept) => {
            let file = if env.exists() { ".env" } else { "no .env" };
            HomeCheck::ok(
                SECRETS,
                format!(
                    "{file}, {} stored separately",
                    pluralize(kept.len(), "secret")
                ),
            )
        }
    }
}

#[cfg(unix)]
fn readable_by_others(path: &std::path::Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt;
    let mode = path.metadata().ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then_some(mode)
}

#[cfg(not(unix))]
fn readable_by_others(_: &std::path::Path) -> Option<u32> {
    None
}

pub(super) fn model(context: &Context, settings: &Settings) -> Result<HomeCheck, Failure> {
    let selection = context.block_on(async {
        let resolve_context = ResolveContext::new(&context.home, settings);
        Ok(resolve_model(&resolve_context, &ModelOverrides::default()).await)
    })?;
    Ok(match selection {
        Ok(selection) => {
            let endpoint = &selection.endpoint;
            let key = match &endpoint.key.value {
                Some(_) => format!(", key from {}", endpoint.key.source),
                None => String::new(),
            };
            HomeCheck::ok(
                "model",
                format!(
                    "`{}` from {} ({}){key}",
                    endpoint.model,
                    endpoint.provider,
                    endpoint.address()
                ),
            )
        }
        Err(error) => HomeCheck::fail("model", error.to_string())
            .fix("`hermes model` asks for a provider, a key and a model"),
    })
}

pub(super) fn servers(
    context: &Context,
    settings: &Settings,
    probe: bool,
) -> Result<HomeCheck, Failure> {
    const ID: &str = "servers";
    if settings.servers.is_empty() {
        return Ok(HomeCheck::warn(ID, "no MCP server is configured").fix(
            "`hermes mcp catalog` lists some, `hermes mcp import` imports those of other programs",
        ));
    }
    let problems = mcp::summarize_checks(context, probe)?;
    let all = pluralize(settings.servers.len(), "server");
    let running = mcp::count_ready_servers(context);
    let running = match running {
        Some(ready) => format!("{all}, {ready} ready in a running process"),
        None => format!("{all}, not running now"),
    };
    let part = match (&problems.first_failure, &problems.first_warning) {
        (Some(failure), _) => HomeCheck::fail(ID, format!("{all}: {failure}")),
        (None, Some(warning)) => HomeCheck::warn(ID, format!("{all}: {warning}")),
        (None, None) => return Ok(HomeCheck::ok(ID, running)),
    };
    Ok(part.fix("`hermes mcp doctor` says what to do about each"))
}

/// What the commands of the agent can reach.
pub(super) fn commands(settings: &Settings) -> HomeCheck {
    const ID: &str = "commands";
    let confinement = Confinement::new(&settings.document, CommandBounds::default());
    let message = confinement.describe();
    if confinement.level() == CommandSandbox::Off {
        let part = HomeCheck::ok(ID, message);
        if confinement.is_supported() {
            return part.fix(
                "`hermes config set terminal.sandbox workspace` confines them to the working directory",
            );
        }
        return part;
    }
    if confinement.is_supported() {
        return HomeCheck::ok(ID, message);
    }
    HomeCheck::fail(ID, message)
        .fix("`hermes config set terminal.sandbox off` lets them run without a sandbox")
}

pub(super) fn store(context: &Context) -> Result<HomeCheck, Failure> {
    const ID: &str = "store";
    context.block_on(async {
        let store = match Store::open(&context.home, Access::ReadOnly).await {
            Ok(store) => store,
            Err(StoreError::Absent { .. }) => return Ok(HomeCheck::ok(ID, "no conversation yet")),
            Err(error) => return Ok(damaged_store(&error)),
        };
        let counted = store.count_sessions(&[]).await;
        store.close().await;
        Ok(match counted {
            Ok(sessions) => HomeCheck::ok(
                ID,
                format!(
                    "{} in {}",
                    pluralize(usize::try_from(sessions).unwrap_or_default(), "session"),
                    store.path().display()
                ),
            ),
            Err(error) => damaged_store(&error),
        })
    })
}

fn damaged_store(error: &StoreError) -> HomeCheck {
    HomeCheck::fail("store", error.to_string()).fix(
        "put a copy in its place (`state.db.bak-…`), or move it away to start with an empty one",
    )
}

pub(super) fn gateway(context: &Context, settings: &Settings) -> HomeCheck {
    const ID: &str = "gateway";
    match instance::find_running(&context.home) {
        Ok(Some(process)) => {
            return HomeCheck::ok(ID, format!("running (process {})", process.pid));
        }
        Ok(None) => {}
        Err(error) => return HomeCheck::warn(ID, format!("not known: {error}")),
    }
    let jobs = CronFile::load(&context.home).map(|file| {
        let enabled = file.jobs.iter().filter(|job| job.is_enabled());
        enabled.count()
    });
    let waiting = match jobs {
        Ok(0) => None,
        Ok(jobs) => Some(pluralize(jobs, "cron job")),
        Err(error) => {
            return HomeCheck::fail(ID, error.to_string())
                .fix("correct or remove `cron/jobs.json`");
        }
    };
    let bots = configured_labels(&settings.gateway);
    let waiting = waiting
        .or_else(|| (!bots.is_empty()).then(|| format!("{} (a bot token)", bots.join(", "))))
        .or_else(|| {
            let api = settings.gateway.api_server.key.is_some();
            api.then(|| "the HTTP API".to_owned())
        });
    match waiting {
        Some(waiting) => HomeCheck::warn(ID, format!("not running, and {waiting} needs it"))
            .fix("`hermes gateway start` or `hermes up` starts it; `hermes gateway install` makes it a service"),
        None => HomeCheck::ok(ID, "not running; nothing needs it"),
    }
}

pub(super) fn hub(context: &Context) -> HomeCheck {
    const ID: &str = "hub";
    let is_named = std::env::var("HERMES_HUB_URL").is_ok_and(|url| !url.is_empty());
    let client = match HubClient::new(context, &HubArgs::default()) {
        Ok(client) => client,
        Err(error) => {
            return HomeCheck::fail(ID, error.message).fix("correct HERMES_HUB_URL or the token");
        }
    };
    match client.call_quietly(&HubCall::new("readyz")) {
        Ok(answer) => HomeCheck::ok(
            ID,
            format!("{} is {}", client.address(), answer.text("/status")),
        ),
        Err(error) if is_named => HomeCheck::fail(ID, error.message)
            .fix("HERMES_HUB_URL names it: start it, or unset the variable"),
        Err(_) => HomeCheck::ok(
            ID,
            format!("none at {}; `hermes up` runs one", client.address()),
        ),
    }
}
