//! `hermes mcp install`: adds a server of the catalog.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use hermes_config::{Redactor, Settings, mask};
use tokio::process::Command;

use super::{
    catalog as catalog_command,
    save::{self, AddOptions, InitialState, ProbeMode},
};
use crate::{
    catalog::{self, CatalogError, InstallStep, Manifest, ManifestPrompt},
    cli::InstallArgs,
    context::Context,
    failure::{Failure, FailureKind},
    import::Imported,
    question::{DefaultAnswer, Questions},
};

/// How much of a failed step's output is shown.
const LAST_LINES: usize = 20;

pub(crate) fn run(context: &Context, args: &InstallArgs) -> Result<(), Failure> {
    let questions = Questions::new(args.yes);
    let catalog = catalog_command::load_catalog(context);
    let manifest = catalog.find(&args.id).ok_or_else(|| {
        Failure::new(
            FailureKind::NotFound,
            format!("the catalog has no entry `{}`", args.id),
        )
        .suggest_name(
            &args.id,
            "its entries",
            &catalog
                .entries()
                .iter()
                .map(|entry| entry.id.clone())
                .collect::<Vec<_>>(),
        )
        .hint("`hermes mcp catalog` lists them")
    })?;
    let given = parse_answers(manifest, &args.set)?;
    let name = args.name.as_ref().unwrap_or(&manifest.id);
    let settings = context.written_settings()?;
    save::claim_name(questions, &settings, name, args.force)?;
    let answers = collect_answers(questions, &settings, manifest, given)?;

    let directory = manifest.install.as_ref().map(|_| {
        context
            .home
            .path()
            .join("mcp-servers")
            .join(directory_name(name))
    });
    let prepared = catalog::prepare_entry(manifest, &answers, directory.as_deref());
    let prepared = prepared.map_err(|error| match error {
        CatalogError::Unanswered { variable, .. } => unanswered_failure(manifest, &variable),
        other => Failure::failed(other.to_string()),
    })?;
    let installed = match &directory {
        Some(directory) => Some(install_server(
            context, questions, manifest, directory, args.force,
        )?),
        None => None,
    };
    let server = Imported {
        name: name.clone(),
        entry: prepared.entry,
        variables: prepared.variables,
        notes: Vec::new(),
    };
    let options = AddOptions {
        probe: if args.no_test {
            ProbeMode::Skip
        } else {
            ProbeMode::Run
        },
        state: InitialState::Enabled,
        is_forced: args.force,
    };
    save::add_server(context, questions, &settings, server, options)?;
    if let Some(installed) = installed {
        installed.keep();
    }
    Ok(())
}

/// The answers of `--set`.
fn parse_answers(manifest: &Manifest, set: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let mut given = BTreeMap::new();
    for pair in set {
        let Some((variable, value)) = pair.split_once('=') else {
            return Err(Failure::usage("`--set` takes VARIABLE=VALUE"));
        };
        if !manifest
            .prompts
            .iter()
            .any(|prompt| prompt.variable == variable)
        {
            let known = manifest
                .prompts
                .iter()
                .map(|prompt| prompt.variable.as_str());
            let known: Vec<&str> = known.collect();
            let known = match known.as_slice() {
                [] => "it needs no values".to_owned(),
                known => format!("it needs: {}", known.join(", ")),
            };
            return Err(
                Failure::usage(format!("`{}` does not use `{variable}`", manifest.id)).hint(known),
            );
        }
        given.insert(variable.to_owned(), value.to_owned());
    }
    Ok(given)
}

/// The answers to all questions: given by `--set`, asked for, or known already.
fn collect_answers(
    questions: Questions,
    settings: &Settings,
    manifest: &Manifest,
    mut answers: BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, Failure> {
    for prompt in &manifest.prompts {
        if answers.contains_key(&prompt.variable) {
            continue;
        }
        let present = settings.variables.get(&prompt.variable);
        let present = present.filter(|value| prompt.secret && !value.is_empty());
        let answer = if questions.can_ask() {
            ask_prompt(questions, prompt, present)?
        } else if let Some(value) = present.or(prompt.default.as_deref()) {
            value.to_owned()
        } else if prompt.required {
            return Err(unanswered_failure(manifest, &prompt.variable));
        } else {
            continue;
        };
        answers.insert(prompt.variable.clone(), answer);
    }
    Ok(answers)
}

fn ask_prompt(
    questions: Questions,
    prompt: &ManifestPrompt,
    present: Option<&str>,
) -> Result<String, Failure> {
    loop {
        let answer = if prompt.secret {
            let keep = present.map(|value| format!(" [empty keeps {}]", mask(value)));
            let question = format!("{}{}", prompt.question, keep.unwrap_or_default());
            let answer = questions.hidden(&question, "")?.expose().clone();
            match (answer.as_str(), present) {
                ("", Some(present)) => present.to_owned(),
                _ => answer,
            }
        } else {
            questions.text(&prompt.question, prompt.default.as_deref(), "")?
        };
        if !answer.is_empty() || !prompt.required {
            return Ok(answer);
        }
    }
}

fn unanswered_failure(manifest: &Manifest, variable: &str) -> Failure {
    let prompt = manifest.prompts.iter().find(|p| p.variable == variable);
    let question = prompt.map_or("", |prompt| prompt.question.as_str());
    Failure::new(
        FailureKind::AnswerNeeded,
        format!("`{variable}` is needed: {question}"),
    )
    .hint(format!("`--set {variable}=VALUE` answers it"))
}

/// A directory that goes again unless it is kept: a server that was not saved leaves nothing behind.
struct InstallGuard(Option<PathBuf>);

impl InstallGuard {
    fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for InstallGuard {
    fn drop(&mut self) {
        if let Some(directory) = &self.0 {
            let _ = fs::remove_dir_all(directory);
        }
    }
}

/// Fetches and builds the server in its directory.
fn install_server(
    context: &Context,
    questions: Questions,
    manifest: &Manifest,
    directory: &Path,
    is_forced: bool,
) -> Result<InstallGuard, Failure> {
    if directory.exists() {
        let shown = directory.display();
        let question = format!("{shown} exists. Delete it and install again?");
        if !is_forced && !questions.confirm(&question, DefaultAnswer::No, "`--force` deletes it")? {
            return Err(Failure::failed(format!("{shown} exists already"))
                .hint("`--force` deletes it and installs again"));
        }
        fs::remove_dir_all(directory)?;
    }
    if let Some(parent) = directory.parent() {
        context.home.create()?;
        fs::create_dir_all(parent)?;
    }
    let installed = InstallGuard(Some(directory.to_owned()));
    let steps = catalog::install_steps(manifest, directory);
    for (index, step) in steps.iter().enumerate() {
        let line = format!("{} {}", step.program, step.args.join(" "));
        let line = redact_output(&line);
        context
            .output
            .note(format!("[{}/{}] {line}", index + 1, steps.len()));
        context.block_on(run_step(step))?;
    }
    Ok(installed)
}

async fn run_step(step: &InstallStep) -> Result<(), Failure> {
    let mut command = Command::new(&step.program);
    command
        .args(&step.args)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    if let Some(directory) = &step.directory {
        command.current_dir(directory);
    }
    let output = command.output().await.map_err(|error| {
        Failure::failed(format!("`{}` does not start: {error}", step.program))
            .hint(format!("install `{}` first", step.program))
    })?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let text = redact_output(&text);
    let lines: Vec<&str> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    Err(Failure::failed(format!(
        "`{}` failed ({}); its last output:\n{}",
        step.program,
        output.status,
        last.join("\n")
    )))
}

fn redact_output(text: &str) -> String {
    Redactor::default().redact(text).into_owned()
}

/// A name that cannot lead out of the directory above it.
fn directory_name(name: &str) -> PathBuf {
    let safe = |character: char| match character {
        'A'..='Z' | 'a'..='z' | '0'..='9' | '_' | '-' => character,
        _ => '_',
    };
    Path::new(&name.chars().map(safe).collect::<String>()).to_owned()
}
