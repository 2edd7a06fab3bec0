//! How tenants are kept apart here: what the settings want, and in words what the machine gives.

use hermes_hub::settings::{IsolationMode, RuntimeKind, Settings};

use crate::{
    embedded_hub::runtime::{
        ConfinementMode, Isolation, IsolationSupport, ProcessRuntimeSetup,
        directory_closed_to_users,
    },
    failure::Failure,
};

/// What the runtime of processes is made with.
pub(super) fn runtime_setup(settings: &Settings) -> Result<ProcessRuntimeSetup, Failure> {
    // Paths in a sandbox are the real ones.
    let data_dir = settings.data_dir.canonicalize()?;
    Ok(ProcessRuntimeSetup::new(
        data_dir,
        isolation_from_settings(settings),
    )?)
}

fn isolation_from_settings(settings: &Settings) -> Isolation {
    let (first, last) = settings.isolation.uid_range;
    Isolation {
        mode: match settings.isolation.mode {
            IsolationMode::Auto => ConfinementMode::Auto,
            IsolationMode::Strict => ConfinementMode::Strict,
            IsolationMode::Off => ConfinementMode::Off,
        },
        users: first..=last,
        read_paths: settings.isolation.read_paths.clone(),
    }
}

/// The same for the self-test: a Hub may run meanwhile, and its control groups are its own.
pub(crate) fn selftest_setup(settings: &Settings) -> Result<ProcessRuntimeSetup, Failure> {
    let program = std::env::current_exe()?;
    Ok(ProcessRuntimeSetup {
        data_dir: settings.data_dir.canonicalize()?,
        agent: program.clone(),
        program,
        agent_arguments: Vec::new(),
        isolation: isolation_from_settings(settings),
        support: IsolationSupport::detect_without_cgroups(),
        hub_socket: None,
    })
}

/// What keeps tenants apart, for people.
pub(crate) fn describe_isolation(settings: &Settings, support: &IsolationSupport) -> String {
    if settings.runtime == RuntimeKind::Mock {
        return "no tenant runs (`runtime: mock`): every run ends with a fixed text".into();
    }
    if settings.isolation.mode == IsolationMode::Off {
        return "off: tenants can do what this user can do".into();
    }
    let sandbox = match support.landlock {
        Some(version) => format!("sandbox by Landlock {version}"),
        None if settings.isolation.mode == IsolationMode::Strict => {
            "no Landlock, so no tenant is started (`isolation.mode: strict`)".into()
        }
        None => "no sandbox, this machine has no Landlock".into(),
    };
    let user: String = match directory_closed_to_users(&settings.data_dir) {
        _ if !support.is_root => "one user for all tenants".into(),
        None => "a user for each tenant".into(),
        Some(directory) => {
            let closed = directory.display();
            format!("one user for all tenants, because `{closed}` is closed to others")
        }
    };
    let limits = match &support.cgroups {
        Some(_) => "limits by control groups",
        None => "memory watched by the Hub",
    };
    format!("{sandbox}; {user}; {limits}")
}
