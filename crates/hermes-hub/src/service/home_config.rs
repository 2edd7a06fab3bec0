//! `config.yaml` of a tenant's home: read as it is, and changed so that comments and everything else stay.

use std::collections::BTreeSet;

use hermes_config::{ConfigFile, ConfigFileError, Home, SettingsError, Variables};
use serde_json::Value;

use crate::{
    Problem, ProblemCode,
    service::call::Call,
    storage::{
        files::{HomeDirectory, SharePath, problem_from_io, run_blocking},
        state::{FileChange, TenantRecord},
    },
};

const CONFIG_FILE: &str = "config.yaml";

/// The configuration of a home as it is written.
pub(crate) async fn read_config(call: &Call) -> Result<Value, Problem> {
    let home = call.hub.home(call.tenant()?);
    run_blocking(move || {
        let directory = open_home(&home)?;
        let file = open_config(&directory, &home)?;
        Ok(file.get(&[]).cloned().unwrap_or_default())
    })
    .await
}

/// Changes the configuration of the tenant's home. When this returns, a running agent works with the change.
pub(crate) async fn change_config<T: Send + 'static>(
    call: &Call,
    change: impl FnOnce(&mut ConfigFile) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let record = call.tenant()?;
    let home = call.hub.home(record);
    // Two changes of one file must not undo each other.
    let turn = call.hub.begin_home_change(record).await?;
    let changed = FileChange::Home {
        tenant: record.id.clone(),
    };
    let work = run_blocking(move || {
        let directory = open_home(&home)?;
        let mut file = open_config(&directory, &home)?;
        let before = file.text();
        let outcome = change(&mut file)?;
        let text = file
            .checked_text()
            .map_err(|error| config_problem(&error))?;
        if text != before {
            let path = SharePath::parse(CONFIG_FILE)?;
            directory
                .replace(CONFIG_FILE, text.as_bytes())
                .map_err(|error| problem_from_io(&error, &path))?;
        }
        Ok(outcome)
    });
    let outcome = super::run_recorded(call, changed, work).await?;
    drop(turn);
    call.hub.push_settings_now(&record.id).await;
    Ok(outcome)
}

/// The names of the variables that belong to a tenant: those that operators set, and those of its own `.env`.
pub(crate) async fn own_variables(
    call: &Call,
    record: &TenantRecord,
) -> Result<BTreeSet<String>, Problem> {
    let set = call.hub.state().env(&record.id).await?;
    let mut names: BTreeSet<String> = set.into_iter().map(|variable| variable.name).collect();
    let home = call.hub.home(record);
    let own = run_blocking(move || {
        let directory = open_home(&home)?;
        let text = directory.read_settings(".env").ok().flatten();
        let nothing: [(String, String); 0] = [];
        let variables = Variables::from_pairs_and_text(nothing, &text.unwrap_or_default());
        let names = variables.iter().map(|(name, _)| name.to_owned());
        Ok(names.collect::<Vec<_>>())
    });
    names.extend(own.await?);
    Ok(names)
}

fn open_home(home: &Home) -> Result<HomeDirectory, Problem> {
    HomeDirectory::open_home(home.path()).map_err(|error| match error {
        rustix::io::Errno::NOENT => {
            Problem::precondition("the tenant has no home yet; wait until it is `ready`")
        }
        error => Problem::internal(&error),
    })
}

fn open_config(directory: &HomeDirectory, home: &Home) -> Result<ConfigFile, Problem> {
    let text = directory.read_settings(CONFIG_FILE).map_err(|error| {
        if error.kind() == std::io::ErrorKind::FileTooLarge {
            let reason = hermes_config::config_too_long();
            return damaged(&reason);
        }
        tracing::warn!(%error, "failed to read a tenant's configuration");
        Problem::precondition(
            "the tenant's `config.yaml` is a link or not text, and the Hub does not follow links there; put a file in its place",
        )
        .with_reason("symlink")
    })?;
    ConfigFile::with_text(home.config_file(), text.unwrap_or_default())
        .map_err(|error| config_problem(&error))
}

fn damaged(reason: &dyn std::fmt::Display) -> Problem {
    Problem::precondition(format!(
        "the tenant's `config.yaml` is damaged: {reason}; fix the file first"
    ))
    .with_reason("config_damaged")
}

fn config_problem(error: &ConfigFileError) -> Problem {
    match error {
        ConfigFileError::Malformed(SettingsError::Malformed {
            line,
            column,
            reason,
            ..
        }) => damaged(&format!("line {line}, column {column}: {reason}")),
        ConfigFileError::NotEditable { key, .. } => Problem::precondition(format!(
            "`{key}` of the tenant's `config.yaml` cannot be changed from here; edit the file by hand"
        ))
        .with_reason("config_not_editable"),
        ConfigFileError::Io { .. } | ConfigFileError::Malformed(_) => Problem::internal(error),
    }
}

/// The problem of something that the policy forbids.
pub(crate) fn policy_problem(message: impl Into<String>) -> Problem {
    Problem::new(ProblemCode::Unprocessable, message).with_reason("policy")
}
