//! Which token the command line presents. It is never an argument: those are seen by every process of the machine.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use hermes_config::{Home, Secret, SecretStore, Variables};
use hermes_hub::settings::{Settings, SettingsSources};
use url::{Host, Url};

use crate::failure::Failure;

/// The variable that holds one.
const TOKEN_VARIABLE: &str = "HERMES_HUB_TOKEN";

/// The token for the Hub at `base`: that of a file that was named, of the environment, of the keyring, or of the Hub of
/// this machine.
pub(super) fn find_token(
    base: &Url,
    file: Option<&Path>,
    home: &Home,
) -> Result<Option<Secret<String>>, Failure> {
    if let Some(path) = file {
        return read_token_file(path).map(Some).map_err(|error| {
            Failure::usage(format!(
                "the token file `{}` cannot be read: {error}",
                path.display()
            ))
        });
    }
    if let Some(token) = std::env::var(TOKEN_VARIABLE)
        .ok()
        .filter(|token| !token.is_empty())
    {
        return Ok(Some(Secret::new(token.trim().to_owned())));
    }
    if let Some(token) = stored_token(base, home)? {
        return Ok(Some(token));
    }
    // The token of this machine's Hub is nobody else's business.
    if !is_this_machine(base) {
        return Ok(None);
    }
    Ok(local_token_file().and_then(|path| read_token_file(&path).ok()))
}

/// What `hermes secret set` keeps for this Hub. The list says so, and only then is the keyring asked.
fn stored_token(base: &Url, home: &Home) -> Result<Option<Secret<String>>, Failure> {
    let Some(name) = secret_name(base) else {
        return Ok(None);
    };
    // A list that cannot be read is not a reason to fail: there may be another token.
    let names = SecretStore::file_only(home).list().unwrap_or_default();
    if !names.iter().any(|(kept, _)| *kept == name) {
        return Ok(None);
    }
    let (variables, _) = Variables::load(home, None);
    let keyring = SecretStore::for_user(home, &variables);
    keyring.get(&name).map(Some).map_err(|error| {
        Failure::failed(format!("the Hub's token, `{name}` of the secrets: {error}"))
    })
}

/// The name of a Hub's token among the secrets: `hub@` and its host, with the port if that is an unusual one.
fn secret_name(base: &Url) -> Option<String> {
    let host = base.host_str()?;
    let name = match base.port() {
        Some(port) => format!("hub@{host}/{port}"),
        None => format!("hub@{host}"),
    };
    SecretStore::check_name(&name).is_ok().then_some(name)
}

fn read_token_file(path: &Path) -> std::io::Result<Secret<String>> {
    Ok(Secret::new(
        std::fs::read_to_string(path)?.trim().to_owned(),
    ))
}

/// Where the Hub of this machine keeps its first token.
fn local_token_file() -> Option<PathBuf> {
    let sources = SettingsSources {
        environment: environment_variables(),
        ..SettingsSources::default()
    };
    Some(Settings::load(&sources).ok()?.admin_token_file)
}

/// The process's variables, as far as they are text.
pub(crate) fn environment_variables() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// Whether a Hub is on this machine.
pub(super) fn is_this_machine(base: &Url) -> bool {
    match base.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hubs_token_has_the_name_of_its_host() {
        for (url, name) in [
            ("https://hub.example.com", Some("hub@hub.example.com")),
            ("https://hub.example.com:443", Some("hub@hub.example.com")),
            ("http://127.0.0.1:7878", Some("hub@127.0.0.1/7878")),
            ("http://[::1]:7878", None),
        ] {
            let secret = secret_name(&Url::parse(url).unwrap());
            assert_eq!(secret.as_deref(), name, "{url}");
        }
    }

    #[test]
    fn only_the_hub_of_this_machine_is_shown_its_token() {
        for (url, is_here) in [
            ("http://127.0.0.1:7878", true),
            ("http://localhost:7878", true),
            ("http://[::1]:7878", true),
            ("https://hub.example.com", false),
            ("https://localhost.example.com", false),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(is_this_machine(&Url::parse(url).unwrap()), is_here, "{url}");
        }
    }
}
