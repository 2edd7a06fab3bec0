//! The names that there are: from the configuration, caches, files and running processes, and fast.

use std::time::Duration;

use clap_complete::CompletionCandidate;
use hermes_config::{Home, Platform, ProfileName, Settings};
use hermes_gateway::{access::PairingStore, platform::Account};
use hermes_store::{Access, Store, cron::CronFile, skills::Skills};

use crate::{
    catalog::{
        Catalog,
        built_in::{BuiltIn, PRESETS},
    },
    cli::HubArgs,
    commands::{hub::client::HubClient, mcp::cached_tools, sessions},
    context::Context,
};

/// Timeout for a list of names.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The home that the line is about: its profile counts.
fn home() -> Option<Home> {
    let words: Vec<String> = std::env::args().collect();
    let profile = words
        .iter()
        .enumerate()
        .find_map(|(at, word)| match word.as_str() {
            "-p" | "--profile" => words.get(at + 1).cloned(),
            _ => word.strip_prefix("--profile=").map(str::to_owned),
        });
    let profile = profile.and_then(|name| ProfileName::parse(&name).ok());
    Home::locate(profile.as_ref()).ok()
}

fn settings() -> Option<(Home, Settings)> {
    let home = home()?;
    let settings = Settings::load(&home).ok()?;
    Some((home, settings))
}

/// The same with the built-in server, which commands may name that change nothing.
fn settings_with_built_in() -> Option<(Home, Settings)> {
    let (home, mut settings) = settings()?;
    if let Some(built_in) = BuiltIn::of_this_program() {
        built_in.add_to(&mut settings);
    }
    Some((home, settings))
}

fn candidates<T: Into<String>>(
    typed: &str,
    names: impl Iterator<Item = (T, Option<String>)>,
) -> Vec<CompletionCandidate> {
    names
        .map(|(name, help)| (name.into(), help))
        .filter(|(name, _)| name.starts_with(typed) && !name.contains(char::is_control))
        .map(|(name, help)| {
            let help = help.and_then(|text| text.lines().next().map(sanitize_description));
            CompletionCandidate::new(name).help(help.map(Into::into))
        })
        .collect()
}

/// What a server says of its tool is shown by the shell as it is.
fn sanitize_description(text: &str) -> String {
    crate::output::printable(text).trim().to_owned()
}

pub(super) fn profiles(typed: &str) -> Vec<CompletionCandidate> {
    let entries = Home::locate(None)
        .ok()
        .and_then(|home| std::fs::read_dir(home.path().join("profiles")).ok());
    let names = entries.into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    candidates(typed, names.map(|name| (name, None)))
}

/// Servers with an entry, which can be changed.
pub(super) fn configured_servers(typed: &str) -> Vec<CompletionCandidate> {
    servers_of(typed, settings())
}

pub(super) fn servers(typed: &str) -> Vec<CompletionCandidate> {
    servers_of(typed, settings_with_built_in())
}

fn servers_of(typed: &str, home_settings: Option<(Home, Settings)>) -> Vec<CompletionCandidate> {
    let Some((_, settings)) = home_settings else {
        return Vec::new();
    };
    let names = settings.servers.iter().map(|entry| {
        let kind = entry.server.as_ref().ok();
        let kind = kind.map(|server| server.transport.kind().to_owned());
        (entry.name.to_string(), kind)
    });
    candidates(typed, names)
}

pub(super) fn tools(typed: &str) -> Vec<CompletionCandidate> {
    let Some((home, settings)) = settings_with_built_in() else {
        return Vec::new();
    };
    let known = cached_tools(&home, &settings);
    let is_registered = typed.starts_with("mcp_");
    let named = known.iter().map(|tool| {
        let name = if is_registered {
            tool.registered.clone()
        } else {
            format!("{}.{}", tool.server, tool.name)
        };
        (name, Some(tool.description.clone()))
    });
    let unknown = settings.servers.iter().filter(|entry| {
        !is_registered && !known.iter().any(|tool| tool.server == entry.name.as_str())
    });
    let unknown = unknown.map(|entry| (entry.name.to_string(), None));
    candidates(typed, named.chain(unknown))
}

pub(super) fn servers_and_tools(typed: &str) -> Vec<CompletionCandidate> {
    if typed.contains('.') {
        tools(typed)
    } else {
        servers(typed)
    }
}

pub(super) fn presets(typed: &str) -> Vec<CompletionCandidate> {
    let known = PRESETS.iter();
    candidates(
        typed,
        known.map(|preset| (preset.name, Some(preset.description.to_owned()))),
    )
}

pub(super) fn catalog(typed: &str) -> Vec<CompletionCandidate> {
    let Some(home) = home() else {
        return Vec::new();
    };
    let catalog = Catalog::load(home.path());
    let entries = catalog.entries().iter();
    candidates(
        typed,
        entries.map(|entry| (entry.id.clone(), Some(entry.description.clone()))),
    )
}

pub(super) fn sessions(typed: &str) -> Vec<CompletionCandidate> {
    let Some(home) = home() else {
        return Vec::new();
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return Vec::new();
    };
    let known = runtime.block_on(async {
        let names = async {
            let store = Store::open(&home, Access::ReadOnly).await.ok()?;
            let names = sessions::recent_sessions(&store).await;
            store.close().await;
            Some(names)
        };
        tokio::time::timeout(TIMEOUT, names).await.ok().flatten()
    });
    candidates(typed, known.unwrap_or_default().into_iter())
}

pub(super) fn jobs(typed: &str) -> Vec<CompletionCandidate> {
    let file = home().and_then(|home| CronFile::load(&home).ok());
    let jobs = file.map(|file| file.jobs).unwrap_or_default();
    let names = jobs
        .iter()
        .map(|job| (job.id().to_owned(), Some(job.name().to_owned())));
    candidates(typed, names)
}

pub(super) fn skills(typed: &str) -> Vec<CompletionCandidate> {
    let Some((home, settings)) = settings() else {
        return Vec::new();
    };
    let skills = Skills::new(&home, &settings).list();
    let names = skills
        .into_iter()
        .map(|skill| (skill.name, Some(skill.description)));
    candidates(typed, names)
}

pub(super) fn bot_accounts(typed: &str) -> Vec<CompletionCandidate> {
    let Some((_, settings)) = settings() else {
        return Vec::new();
    };
    let labels = Platform::ALL.into_iter().flat_map(|platform| {
        let accounts = settings.gateway.accounts(platform);
        let account = |name: &str| Account {
            platform,
            name: name.to_owned(),
        };
        let labels: Vec<String> = accounts.map(|(name, _)| account(name).label()).collect();
        labels
    });
    candidates(typed, labels.map(|label| (label, None)))
}

pub(super) fn paired_accounts(typed: &str) -> Vec<CompletionCandidate> {
    let users = home().map(|home| PairingStore::new(&home).list_approved());
    let mut accounts: Vec<String> = users
        .unwrap_or_default()
        .into_iter()
        .map(|user| user.account)
        .collect();
    accounts.dedup();
    candidates(typed, accounts.into_iter().map(|account| (account, None)))
}

pub(super) fn paired_users(typed: &str) -> Vec<CompletionCandidate> {
    let users = home().map(|home| PairingStore::new(&home).list_approved());
    let users = users.unwrap_or_default().into_iter();
    candidates(
        typed,
        users.map(|user| {
            (
                user.user_id,
                Some(format!("{} {}", user.account, user.user_name)),
            )
        }),
    )
}

pub(super) fn tenants(typed: &str) -> Vec<CompletionCandidate> {
    let Some(context) = home().map(Context::for_completion) else {
        return Vec::new();
    };
    let Ok(hub) = HubClient::new(&context, &HubArgs::default()) else {
        return Vec::new();
    };
    let tenants = hub.list_tenant_ids(TIMEOUT).into_iter();
    candidates(typed, tenants.map(|name| (name, None)))
}
