//! `hermes hub doctor`: what keeps a Hub of this machine from working.

use std::{borrow::Cow, fs, os::unix::fs::PermissionsExt as _, path::Path};

use hermes_hub::{
    settings::{IsolationMode, Settings},
    storage::{
        data_dir::{DataDir, DataDirError},
        encryption::SecretKey,
        state::{PostgresOptions, PostgresState, SqliteState, State, TablesFound},
    },
};
use hermes_store::db::copy_database;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::serve::local_sources;
use crate::{
    cli::HubDoctorArgs,
    context::Context,
    embedded_hub,
    embedded_hub::{
        describe_isolation,
        runtime::{
            AttemptOutcome, IsolationSupport, SelftestAttempt, directory_closed_to_users,
            run_selftest,
        },
    },
    failure::{Failure, FailureKind},
    output::Tone,
};

/// Free bytes below which the Hub says that it is not ready.
const MIN_FREE_BYTES: u64 = 16 << 20;

/// One thing that was looked at.
struct Finding {
    what: Cow<'static, str>,
    /// What is wrong, if anything.
    result: Result<String, String>,
}

pub(super) fn run(context: &Context, args: &HubDoctorArgs) -> Result<(), Failure> {
    let settings = embedded_hub::load_settings(&local_sources(&args.data))?;
    let mut findings = vec![
        Finding {
            what: "settings".into(),
            result: Ok("can be used".into()),
        },
        Finding {
            what: "directory".into(),
            result: check_directory(&settings),
        },
        Finding {
            what: "disk".into(),
            result: check_free_space(&settings.data_dir),
        },
        Finding {
            what: "token".into(),
            result: check_secret_file(&settings.admin_token_file),
        },
        Finding {
            what: "isolation".into(),
            result: Ok(describe_isolation(
                &settings,
                &IsolationSupport::detect_without_cgroups(),
            )),
        },
    ];
    findings.extend(context.block_on(async { Ok(check_data(&settings).await) })?);
    if args.isolation {
        findings.extend(run_isolation_selftest(&settings));
    }
    let output = context.output;
    for Finding { what, result } in &findings {
        match result {
            Ok(text) => output.line(format!("{} {what}: {text}", output.tint(Tone::Good, "ok"))),
            Err(text) => output.line(format!("{} {what}: {text}", output.tint(Tone::Bad, "bad"))),
        }
    }
    let shown: Vec<Value> = findings
        .iter()
        .map(|Finding { what, result }| match result {
            Ok(text) => json!({"what": what, "ok": true, "message": text}),
            Err(text) => json!({"what": what, "ok": false, "message": text}),
        })
        .collect();
    let bad = findings
        .iter()
        .filter(|finding| finding.result.is_err())
        .count();
    if bad == 0 {
        output.json(json!({"findings": shown}));
        return Ok(());
    }
    let message = format!("{bad} of {} checks failed", findings.len());
    output.json_failure(&message, json!({"findings": shown}));
    Err(Failure::new(FailureKind::AlreadyPrinted, message))
}

/// One tenant tries to get at another and at the Hub.
fn run_isolation_selftest(settings: &Settings) -> Vec<Finding> {
    let attempts = DataDir::create(&settings.data_dir)
        .map_err(|error| error.to_string())
        .and_then(|_| {
            let setup =
                embedded_hub::selftest_setup(settings).map_err(|failure| failure.message)?;
            // Tenants' users have to get through it, as through the Hub's own directory.
            let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
            let directory = tempfile::Builder::new()
                .prefix("selftest-")
                .permissions(open)
                .tempdir_in(&setup.data_dir)
                .map_err(|error| error.to_string())?;
            run_selftest(&setup, directory.path()).map_err(|error| error.to_string())
        });
    let remedy = isolation_remedy(settings, &IsolationSupport::detect_without_cgroups());
    match attempts {
        Ok(attempts) => attempts
            .into_iter()
            .map(|attempt| attempt_finding(attempt, &remedy))
            .collect(),
        Err(reason) => vec![Finding {
            what: "isolation self-test".into(),
            result: Err(reason),
        }],
    }
}

/// What to change where a tenant gets through to what is not its own.
fn isolation_remedy(settings: &Settings, support: &IsolationSupport) -> String {
    let isolation = &settings.isolation;
    if isolation.mode == IsolationMode::Off {
        return "set `isolation.mode: auto` in hub.yaml".into();
    }
    if support.landlock.is_none() {
        let landlock = "use Linux 5.13 or later with Landlock turned on (`lsm=landlock,…` among the kernel's parameters)";
        return match directory_closed_to_users(&settings.data_dir) {
            Some(directory) if support.is_root => format!(
                "{landlock}, or `chmod o+x {}`, for each tenant to have a user of its own",
                directory.display()
            ),
            _ if support.is_root => landlock.into(),
            _ => format!(
                "{landlock}, or run the Hub as root, for each tenant to have a user of its own"
            ),
        };
    }
    if !isolation.read_paths.is_empty() {
        return "take what holds it out of `isolation.read_paths` in hub.yaml".into();
    }
    "this is a bug in hermes; please report it with the lines above".into()
}

fn attempt_finding(attempt: SelftestAttempt, remedy: &str) -> Finding {
    let result = match attempt.outcome {
        AttemptOutcome::Allowed => Ok("can be done".to_owned()),
        AttemptOutcome::Denied => Ok("cannot be done".to_owned()),
        AttemptOutcome::ProtectedByKey => Ok(
            "can be done, since Landlock covers sockets only from Linux 7.1 on; without its key an agent says nothing"
                .to_owned(),
        ),
        AttemptOutcome::Breached => Err(format!("a tenant can do that: {remedy}")),
        AttemptOutcome::Unusable => Err("a tenant cannot do that; see `logs/agents.log`".to_owned()),
    };
    Finding {
        what: attempt.what.into(),
        result,
    }
}

fn check_directory(settings: &Settings) -> Result<String, String> {
    let path = &settings.data_dir;
    let shown = path.display();
    match fs::metadata(path) {
        Err(_) => return Ok(format!("`{shown}` is made at the first start")),
        // The way through it stays open: tenants with a user of their own have homes below.
        Ok(metadata) if metadata.permissions().mode() & 0o066 != 0 => {
            return Err(format!(
                "others can read or write `{shown}`; `chmod go-rw` closes it"
            ));
        }
        Ok(_) => {}
    }
    let directory = DataDir::create(path).map_err(|error| error.to_string())?;
    match directory.lock() {
        Ok(_) => Ok(format!("`{shown}`, no Hub runs")),
        Err(DataDirError::InUse { holder, .. }) => Ok(format!("`{shown}`, a Hub runs ({holder})")),
        Err(error) => Err(error.to_string()),
    }
}

fn check_free_space(path: &Path) -> Result<String, String> {
    // Before the first start there is room where it will be.
    let existing = path.ancestors().find(|path| path.exists()).unwrap_or(path);
    let disk = rustix::fs::statvfs(existing).map_err(|error| error.to_string())?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let shown = format!("{} MiB are free", free >> 20);
    if free < MIN_FREE_BYTES {
        Err(format!("{shown}; make room"))
    } else {
        Ok(shown)
    }
}

fn check_secret_file(path: &Path) -> Result<String, String> {
    match fs::metadata(path) {
        Err(_) => Ok("none in a file here".into()),
        Ok(metadata) if metadata.permissions().mode() & 0o077 != 0 => Err(format!(
            "others can read `{0}`; `chmod 600 {0}`, and rotate the token",
            path.display()
        )),
        Ok(_) => Ok(format!("in `{}`", path.display())),
    }
}

async fn copy_database_aside(settings: &Settings, path: &Path) -> Result<TempDir, String> {
    let directory = TempDir::with_prefix_in("doctor-", &settings.data_dir)
        .map_err(|error| error.to_string())?;
    let copied = copy_database(path, &directory.path().join("hub.db")).await;
    copied
        .map(|()| directory)
        .map_err(|error| error.to_string())
}

async fn check_secret_key(settings: &Settings, state: &dyn State) -> Result<String, String> {
    let has_secrets = state
        .has_encrypted()
        .await
        .map_err(|error| error.to_string())?;
    if !has_secrets && !settings.secret_key_file.exists() {
        return Ok("made at the next start".into());
    }
    let key = SecretKey::load(&settings.secret_key_file, state).await;
    key.map(|_| "opens the secrets".into())
        .map_err(|error| error.to_string())
}

/// The database and the key of its secrets, if there are any yet.
async fn check_data(settings: &Settings) -> Vec<Finding> {
    let path = match settings.database.sqlite_path() {
        Some(path) if path.exists() => path,
        Some(_) => return Vec::new(),
        None => return check_postgres(settings).await,
    };
    // A copy: looking must change nothing, and an old database would be brought to this version.
    let copy = match copy_database_aside(settings, &path).await {
        Ok(copy) => copy,
        Err(reason) => {
            return vec![Finding {
                what: "database".into(),
                result: Err(reason),
            }];
        }
    };
    let state = match SqliteState::open(&copy.path().join("hub.db"), "doctor").await {
        Ok(state) => state,
        Err(error) => {
            return vec![Finding {
                what: "database".into(),
                result: Err(error.to_string()),
            }];
        }
    };
    let findings = check_state(settings, &state, &format!("`{}` answers", path.display())).await;
    State::close(&state).await;
    findings
}

/// Looks at the tables; those of another version are left alone.
async fn check_postgres(settings: &Settings) -> Vec<Finding> {
    let finding = |result: Result<String, String>| {
        vec![Finding {
            what: "database".into(),
            result,
        }]
    };
    let options = PostgresOptions::from(&settings.database);
    match PostgresState::look(&options).await {
        Err(error) => return finding(Err(error.to_string())),
        Ok(TablesFound::None) => {
            return finding(Ok(
                "PostgreSQL answers; the tables are made at the next start".into(),
            ));
        }
        Ok(TablesFound::Older) => {
            let waits = "PostgreSQL answers; the tables are migrated at the next start";
            return finding(Ok(waits.into()));
        }
        Ok(TablesFound::Current) => {}
    }
    match PostgresState::open(&options, "doctor").await {
        Err(error) => finding(Err(error.to_string())),
        Ok(state) => {
            let findings = check_state(settings, &state, "PostgreSQL answers").await;
            State::close(&state).await;
            findings
        }
    }
}

async fn check_state(settings: &Settings, state: &dyn State, answers: &str) -> Vec<Finding> {
    let works = state.ping().await;
    let key = check_secret_key(settings, state).await;
    let audit = state.verify_audit().await;
    let audit = match audit {
        Err(error) => Err(error.to_string()),
        Ok(chains) => match chains.iter().find_map(|chain| chain.broken.as_ref()) {
            Some(fault) => Err(format!("entry {} was changed: {}", fault.seq, fault.reason)),
            None => Ok("no entry was changed".into()),
        },
    };
    vec![
        Finding {
            what: "database".into(),
            result: works
                .map(|()| answers.to_owned())
                .map_err(|error| error.to_string()),
        },
        Finding {
            what: "secret key".into(),
            result: key,
        },
        Finding {
            what: "audit".into(),
            result: audit,
        },
    ]
}
