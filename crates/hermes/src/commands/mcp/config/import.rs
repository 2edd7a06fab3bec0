//! `hermes mcp import`: takes servers over from other programs.

use std::{
    fs,
    path::{Path, PathBuf},
};

use hermes_config::{ConfigFile, ServerEntry, Settings};
use serde_json::{Value, json};

use super::{save, secrets};
use crate::{
    cli::ImportArgs,
    commands::mcp::inspect::list,
    context::Context,
    failure::{Failure, FailureKind},
    import::{self, Candidate, ImportSource, Imported, SearchDirectories, SourceFile},
    output::{Table, Tone},
    question::{ChecklistItem, Questions},
};

/// A server that can be imported, and the file it is from.
struct SelectedServer {
    server: Imported,
    file: SourceFile,
}

/// A server that is not imported, and why.
struct Skipped {
    name: String,
    reason: String,
}

/// What the files hold.
#[derive(Default)]
struct ImportPlan {
    wanted: Vec<SelectedServer>,
    skipped: Vec<Skipped>,
}

pub(crate) fn run(context: &Context, args: &ImportArgs) -> Result<(), Failure> {
    let questions = Questions::new(args.yes);
    let settings = context.written_settings()?;
    let mut finds = ImportPlan::default();
    for file in find_files(context, args)? {
        match read_candidates(&file) {
            Ok(candidates) => finds.add(&file, candidates),
            Err(failure) if args.file.is_some() => return Err(failure),
            Err(failure) => context.output.warning(failure.message),
        }
    }
    finds.select(&args.select)?;
    if !args.overwrite {
        finds.skip_present(&settings);
    }
    finds.skip_unusable(&settings);
    print_plan(context, &finds);
    if !args.dry_run {
        finds.wanted = choose_servers(questions, args, finds.wanted)?;
    }
    let mut servers: Vec<Imported> = finds.wanted.into_iter().map(|w| w.server).collect();
    secrets::assign_variables(&settings, &mut servers);
    for server in &servers {
        for note in &server.notes {
            context.output.note(format!("{}: {note}", server.name));
        }
    }
    if !args.dry_run {
        write_servers(context, &servers)?;
    }
    print_report(context, args, &servers, &finds.skipped);
    Ok(())
}

/// The files to read: the one that is named, or those in the usual places.
fn find_files(context: &Context, args: &ImportArgs) -> Result<Vec<SourceFile>, Failure> {
    let source = args.source.as_deref().and_then(ImportSource::parse);
    if let Some(path) = &args.file {
        let path = std::path::absolute(path)?;
        let text = read_text(&path)?;
        let source = source.or_else(|| import::detect_source(&path, &text));
        // Nothing can be told of a file that is broken.
        if source.is_none()
            && let Some(problem) = import::syntax_problem(&text, &path)
        {
            return Err(Failure::usage(problem.to_string()));
        }
        let source = source.ok_or_else(|| {
            Failure::usage(format!(
                "it is unclear which program {} belongs to",
                path.display()
            ))
            .hint("name the source, for example `hermes mcp import cursor --file …`")
        })?;
        return Ok(vec![SourceFile { source, path }]);
    }
    let environment = search_directories()?;
    let mut files = import::find_source_files(&environment);
    files.retain(|file| source.is_none_or(|source| file.source == source));
    if files.is_empty() {
        let searched_paths = match source {
            Some(source) => source.standard_paths(&environment),
            None => Vec::new(),
        };
        let who = source.map_or("any program known here", ImportSource::title);
        let mut failure = Failure::failed(format!("no file of {who} was found"));
        for path in searched_paths {
            failure = failure.hint(format!("looked at {}", path.display()));
        }
        return Err(failure.hint("`--file` names a file elsewhere"));
    }
    for file in &files {
        context
            .output
            .note(format!("{}: {}", file.source.title(), file.path.display()));
    }
    Ok(files)
}

/// Where the files of this user are looked for.
pub(crate) fn search_directories() -> Result<SearchDirectories, Failure> {
    let home_dir = std::env::home_dir()
        .ok_or_else(|| Failure::failed("your home directory is unknown; set `HOME`"))?;
    let directory = |name: &str| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        value.map(PathBuf::from)
    };
    Ok(SearchDirectories {
        config_dir: directory("XDG_CONFIG_HOME").unwrap_or_else(|| home_dir.join(".config")),
        appdata: directory("APPDATA"),
        cwd: std::env::current_dir()?,
        home_dir,
    })
}

fn read_text(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path)
        .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}

fn read_candidates(file: &SourceFile) -> Result<Vec<Candidate>, Failure> {
    let text = read_text(&file.path)?;
    import::read_servers(file.source, &text, &file.path)
        .map_err(|error| Failure::usage(error.to_string()))
}

impl ImportPlan {
    /// Takes what a file holds. Of two servers of one name the first stays: a project's before the user's.
    fn add(&mut self, file: &SourceFile, candidates: Vec<Candidate>) {
        for candidate in candidates {
            match candidate {
                Candidate::Skipped { name, reason } => self.skip(name, reason),
                Candidate::Usable(server) => {
                    let first = self.wanted.iter().find(|w| w.server.name == server.name);
                    match first {
                        Some(first) if first.server.entry == server.entry => {}
                        Some(first) => {
                            let reason = format!(
                                "the one of {} has the same name; import this one by itself with `--file {}`",
                                first.file.source.title(),
                                file.path.display()
                            );
                            self.skip(server.name, reason);
                        }
                        None => self.wanted.push(SelectedServer {
                            server,
                            file: file.clone(),
                        }),
                    }
                }
            }
        }
    }

    fn skip(&mut self, name: String, reason: String) {
        self.skipped.push(Skipped { name, reason });
    }

    /// Leaves the named ones.
    fn select(&mut self, names: &[String]) -> Result<(), Failure> {
        if names.is_empty() {
            return Ok(());
        }
        for name in names {
            let is_skipped = self.skipped.iter().any(|skipped| skipped.name == *name);
            let is_known = is_skipped || self.wanted.iter().any(|w| w.server.name == *name);
            if !is_known {
                let known = self.wanted.iter().map(|w| w.server.name.clone());
                let known: Vec<String> = known.collect();
                return Err(Failure::new(
                    FailureKind::NotFound,
                    format!("no server `{name}` was found"),
                )
                .suggest_name(name, "found", &known));
            }
        }
        self.wanted.retain(|w| names.contains(&w.server.name));
        self.skipped.retain(|skipped| names.contains(&skipped.name));
        Ok(())
    }

    fn skip_present(&mut self, settings: &Settings) {
        self.skip_where(|server| {
            settings.server(&server.name)?;
            Some("it is configured already; `--overwrite` replaces it".to_owned())
        });
    }

    fn skip_unusable(&mut self, settings: &Settings) {
        self.skip_where(|server| {
            let variables = secrets::with_variables(settings, &server.variables);
            let (entry, _) = ServerEntry::parse(&server.name, server.entry.clone(), &variables);
            Some(entry.server.err()?.to_string())
        });
    }

    fn skip_where(&mut self, reason: impl Fn(&Imported) -> Option<String>) {
        for wanted in std::mem::take(&mut self.wanted) {
            match reason(&wanted.server) {
                Some(reason) => self.skip(wanted.server.name, reason),
                None => self.wanted.push(wanted),
            }
        }
    }
}

fn print_plan(context: &Context, finds: &ImportPlan) {
    if !finds.wanted.is_empty() {
        let mut table = Table::new(&["NAME", "FROM", "TARGET"]);
        for SelectedServer { server, file } in &finds.wanted {
            table.row([
                (server.name.clone(), Tone::Strong),
                (file.source.title().to_owned(), Tone::Plain),
                (target(server), Tone::Plain),
            ]);
        }
        context.output.table(&table);
    }
    for Skipped { name, reason } in &finds.skipped {
        context.output.note(format!("skipped `{name}`: {reason}"));
    }
}

/// The command line or address. Secrets are references by now.
fn target(server: &Imported) -> String {
    let (entry, _) = ServerEntry::parse(
        &server.name,
        server.entry.clone(),
        &hermes_config::Variables::default(),
    );
    entry.server.map_or_else(
        |problem| problem.to_string(),
        |server| list::describe_target(&server),
    )
}

/// Lets the person choose. Where nobody is there, naming a source, a file or servers says enough.
fn choose_servers(
    questions: Questions,
    args: &ImportArgs,
    wanted: Vec<SelectedServer>,
) -> Result<Vec<SelectedServer>, Failure> {
    let says_enough = args.source.is_some() || args.file.is_some();
    if wanted.is_empty() || !args.select.is_empty() || (says_enough && !questions.can_ask()) {
        return Ok(wanted);
    }
    let items: Vec<ChecklistItem> = wanted
        .iter()
        .map(|SelectedServer { server, file }| ChecklistItem {
            name: server.name.clone(),
            description: format!("{}: {}", file.source.title(), target(server)),
        })
        .collect();
    let all: Vec<usize> = (0..items.len()).collect();
    let instead = "`--yes` imports all of them, `--select NAME` some";
    let chosen = questions.select("Import these servers:", &items, &all, instead)?;
    let numbered = wanted.into_iter().enumerate();
    let kept = numbered.filter(|(index, _)| chosen.contains(index));
    Ok(kept.map(|(_, wanted)| wanted).collect())
}

fn write_servers(context: &Context, servers: &[Imported]) -> Result<(), Failure> {
    if servers.is_empty() {
        return Ok(());
    }
    context.home.create()?;
    let mut file = ConfigFile::open(&context.home)?;
    for server in servers {
        file.set_server(&server.name, &server.entry);
    }
    for server in servers {
        secrets::write_variables(context, &server.variables)?;
    }
    save::save_file(context, &file)
}

fn print_report(context: &Context, args: &ImportArgs, servers: &[Imported], skipped: &[Skipped]) {
    let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
    let note = match (names.as_slice(), args.dry_run) {
        ([], _) => "Nothing to import.".to_owned(),
        (names, true) => format!("Would import {}.", names.join(", ")),
        (names, false) => format!(
            "Imported {}. `hermes mcp test --all` tries them.",
            names.join(", ")
        ),
    };
    context.output.note(note);
    let notes = servers.iter().flat_map(|server| {
        let notes = server.notes.iter();
        notes.map(|note| json!({"server": server.name, "note": note}))
    });
    let skipped = skipped
        .iter()
        .map(|skipped| json!({"name": skipped.name, "reason": skipped.reason}));
    context.output.json(json!({
        "imported": names,
        "skipped": skipped.collect::<Vec<Value>>(),
        "notes": notes.collect::<Vec<Value>>(),
        "dry_run": args.dry_run,
    }));
}
