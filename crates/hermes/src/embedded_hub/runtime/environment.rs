//! The environment of a tenant's process. It is built from nothing: what the Hub was started with is not for tenants.
//!
//! There is no secret in it. The runtime key and the tenant's own variables go through a descriptor, see
//! [`super::handover`].

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use hermes_hub::tenants::runtime::AgentLaunch;
use hermes_mcp::process::sandbox;

use super::handover::AgentKeys;

/// What there is to run where the Hub has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// How much the commands of an agent are confined at least.
pub(crate) const COMMAND_SANDBOX: &str = "HERMES_COMMAND_SANDBOX";

/// What they may read besides the system, as a list of paths.
pub(crate) const READ_PATHS: &str = "HERMES_READ_PATHS";

/// Directories of a home that variables name.
pub(super) fn directories(home: &Path) -> [PathBuf; 2] {
    [workspace(home), temporary(home)]
}

/// Where an agent works.
pub(super) fn workspace(home: &Path) -> PathBuf {
    home.join("workspace")
}

fn temporary(home: &Path) -> PathBuf {
    home.join("tmp")
}

/// The parts of the Hub's own environment that tenants get.
#[derive(Debug, Clone, Default)]
pub(super) struct LaunchEnv {
    pub(super) path: Option<OsString>,
    pub(super) language: Option<OsString>,
    /// Where the Hub's private routes are.
    pub(super) hub_socket: Option<PathBuf>,
    /// How they export traces.
    pub(super) traces: Vec<(&'static str, String)>,
}

impl LaunchEnv {
    /// The variables of a tenant. Of `PATH`, what it could not read anyway is left out.
    pub(super) fn variables(
        &self,
        launch: &AgentLaunch,
        can_read: impl Fn(&Path) -> bool,
    ) -> Vec<(OsString, OsString)> {
        let home = launch.home.as_os_str();
        let mut variables: BTreeMap<OsString, OsString> = BTreeMap::new();
        let path = self.path.as_deref().unwrap_or(OsStr::new(DEFAULT_PATH));
        let readable = std::env::split_paths(path).filter(|entry| can_read(entry));
        let path = std::env::join_paths(readable).unwrap_or_default();
        let language = self.language.as_deref().unwrap_or(OsStr::new("C.UTF-8"));
        for (name, value) in [
            ("HERMES_HOME", home),
            ("HERMES_TENANT_ID", OsStr::new(launch.tenant.as_str())),
            ("HERMES_WORKSPACE", workspace(&launch.home).as_os_str()),
            ("HERMES_TEAMS", OsStr::new(&launch.teams.join(","))),
            ("HOME", home),
            ("TMPDIR", temporary(&launch.home).as_os_str()),
            ("PATH", &path),
            ("LANG", language),
            ("TZ", OsStr::new(&launch.timezone)),
        ] {
            variables.insert(name.into(), value.into());
        }
        if let Some(socket) = &self.hub_socket {
            variables.insert("HERMES_HUB_SOCKET".into(), socket.into());
        }
        for (name, value) in &self.traces {
            variables.insert(name.into(), value.into());
        }
        variables.into_iter().collect()
    }
}

/// Says to an agent that its commands are confined, and what they may read besides the system.
pub(super) fn command_bounds(read_paths: &[PathBuf]) -> [(OsString, OsString); 2] {
    let readable = std::env::join_paths(read_paths).unwrap_or_default();
    [
        (COMMAND_SANDBOX.into(), "workspace".into()),
        (READ_PATHS.into(), readable),
    ]
}

/// Variables set by the Hub that a tenant's own variables cannot replace.
const HUB_VARIABLES: [&str; 5] = ["HOME", "TMPDIR", "PATH", "LANG", "TZ"];

/// The keys of a tenant, for its agent alone.
pub(super) fn agent_keys(launch: &AgentLaunch) -> AgentKeys {
    let given = launch.env.iter();
    let given = given.filter(|(name, _)| !HUB_VARIABLES.contains(&name.as_str()));
    AgentKeys {
        runtime_key: launch.runtime_key.expose().clone(),
        env: given
            .map(|(name, value)| (name.clone(), value.expose().clone()))
            .collect(),
    }
}

/// What a tenant in a sandbox can read: the system's directories and those that the operator added.
pub(super) fn is_readable(path: &Path, read_paths: &[PathBuf]) -> bool {
    sandbox::is_system_path(path) || read_paths.iter().any(|readable| path.starts_with(readable))
}

#[cfg(test)]
mod tests {
    use hermes_config::Secret;
    use hermes_hub::{TenantId, tenants::runtime::ResourceLimits};
    use hermes_protocol::{Directives, Policy};

    use super::*;

    fn launch() -> AgentLaunch {
        AgentLaunch {
            tenant: TenantId::parse("tenant_123").unwrap(),
            home: "/data/tenants/tenant_123/home".into(),
            runtime_key: Secret::new("hub_rt_x".into()),
            env: BTreeMap::from([
                ("API_KEY".to_owned(), Secret::new("sk-1".to_owned())),
                ("HOME".to_owned(), Secret::new("/elsewhere".to_owned())),
            ]),
            teams: vec!["teams/a:read".into(), "teams/b:write".into()],
            timezone: "Europe/Berlin".into(),
            limits: ResourceLimits {
                memory_bytes: 1,
                pids: 1,
                cpu: 1.0,
            },
            directives: Directives::new(Policy::closed()),
        }
    }

    #[test]
    fn the_environment_holds_what_is_listed_and_no_secret() {
        let environment = LaunchEnv {
            path: Some("/opt/node/bin:/root/.cargo/bin:/usr/bin".into()),
            ..LaunchEnv::default()
        };
        let read_paths = [PathBuf::from("/opt/node")];
        let variables = environment.variables(&launch(), |path| is_readable(path, &read_paths));
        let shown: Vec<String> = variables
            .iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        assert_eq!(
            shown,
            [
                "HERMES_HOME=/data/tenants/tenant_123/home",
                "HERMES_TEAMS=teams/a:read,teams/b:write",
                "HERMES_TENANT_ID=tenant_123",
                "HERMES_WORKSPACE=/data/tenants/tenant_123/home/workspace",
                "HOME=/data/tenants/tenant_123/home",
                "LANG=C.UTF-8",
                "PATH=/opt/node/bin:/usr/bin",
                "TMPDIR=/data/tenants/tenant_123/home/tmp",
                "TZ=Europe/Berlin",
            ]
        );
    }

    #[test]
    fn the_keys_hold_what_the_operator_gave_but_what_is_the_hubs_to_set() {
        let keys = agent_keys(&launch());
        assert_eq!(keys.runtime_key, "hub_rt_x");
        let env: Vec<(&str, &str)> = keys.env.iter().map(|(n, v)| (&**n, &**v)).collect();
        assert_eq!(env, [("API_KEY", "sk-1")]);
    }
}
