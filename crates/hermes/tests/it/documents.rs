//! Whether the documents tell the truth: their configurations load, their command lines parse, their reference is the
//! program's own.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use clap::{CommandFactory, Parser};
use hermes::{
    Cli,
    original::{CommandSupport, ORIGINAL_COMMANDS},
};
use hermes_config::{Settings, Variables};

/// Set to write the generated reference instead of comparing it.
const WRITE: &str = "HERMES_WRITE_DOCS";
const REFERENCE: &str = "docs/reference/commands.md";

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every document for users, relative to the workspace.
fn documents() -> Vec<String> {
    let mut paths = vec!["README.md".to_owned(), "ARCHITECTURE.md".to_owned()];
    for directory in ["docs/guide", "docs/concepts", "docs/reference"] {
        let entries = fs::read_dir(workspace().join(directory)).unwrap();
        let files = entries
            .map(Result::unwrap)
            .filter(|entry| entry.path().is_file());
        for name in files.map(|entry| entry.file_name()) {
            paths.push(format!("{directory}/{}", name.to_str().unwrap()));
        }
    }
    assert!(paths.len() > 10, "the documents were not found");
    paths.sort();
    paths
}

/// A block of code: the words after the fence, and what is in it.
struct Block {
    language: String,
    text: String,
}

fn blocks(document: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in document.lines() {
        match (line.trim().strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(language), None) => {
                open = Some(Block {
                    language: language.to_owned(),
                    text: String::new(),
                });
            }
            (None, Some(block)) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block is not closed");
    blocks
}

#[test]
fn every_configuration_shown_loads() {
    let mut shown = 0;
    for path in documents() {
        for block in blocks(&read(&path)) {
            if !block.language.starts_with("yaml") {
                continue;
            }
            shown += 1;
            let settings = Settings::parse(&block.text, Variables::default())
                .unwrap_or_else(|error| panic!("{path}: {error}\n{}", block.text));
            assert!(
                settings.warnings.is_empty(),
                "{path}: {:?}\n{}",
                settings.warnings,
                block.text
            );
            for entry in &settings.servers {
                let problem = entry.server.as_ref().err();
                assert!(problem.is_none(), "{path}: {} {problem:?}", entry.name);
            }
        }
    }
    assert!(shown >= 10, "only {shown} configurations were found");
}

#[test]
fn every_command_shown_is_one() {
    let mut shown = 0;
    for path in documents() {
        for line in command_lines(&read(&path)) {
            shown += 1;
            let mut words = words(&line);
            // A question in quotes, which the program takes for `-q`.
            if words.get(1).is_some_and(|word| word.contains(' ')) {
                words.insert(1, "-q".into());
            }
            if let Err(error) = Cli::try_parse_from(&words)
                && error.use_stderr()
            {
                panic!("{path}: `{line}`\n{error}");
            }
        }
    }
    assert!(shown >= 30, "only {shown} commands were found");
}

/// Lines of shell blocks, and what is typed in transcripts, where it runs the program.
fn command_lines(document: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for block in blocks(document) {
        for line in block.text.lines() {
            let typed = match block.language.as_str() {
                "sh" => Some(line),
                "console" => line.strip_prefix("$ "),
                _ => None,
            };
            let Some(line) = typed else { continue };
            // What is piped into it is not ours.
            let line = line.rsplit("| ").find(|part| part.starts_with("hermes "));
            lines.extend(line.map(str::to_owned));
        }
    }
    lines
}

/// Splits as a shell does, as far as the documents need it.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for character in line.chars() {
        match (quote, character) {
            (Some(end), _) if end == character => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '#' | '>' | '|' | '&') if word.is_none() => break,
            _ => word.get_or_insert_default().push(character),
        }
    }
    assert!(quote.is_none(), "a quote is not closed: {line}");
    words.extend(word);
    words
}

#[test]
fn a_line_is_split_as_a_shell_does() {
    assert_eq!(
        words(r#"hermes mcp call a.b '{"c": 1}' "" > file # why"#),
        ["hermes", "mcp", "call", "a.b", r#"{"c": 1}"#, ""]
    );
}

#[test]
fn links_between_documents_lead_somewhere() {
    for path in documents() {
        let text = read(&path);
        for target in text.split("](").skip(1) {
            let target = target.split([')', '#']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let file = workspace().join(&path).parent().unwrap().join(target);
            assert!(file.exists(), "{path}: `{target}` does not exist");
        }
    }
}

#[test]
fn every_key_of_the_example_is_in_the_reference() {
    let reference = read("docs/reference/configuration.md");
    let example: serde_json::Value =
        serde_saphyr::from_str(&read("examples/every-key.yaml")).unwrap();
    let mut keys = Vec::new();
    collect_keys(&example, &mut keys);
    for key in keys {
        assert!(
            ["`KEY`", ".KEY`", "`KEY."]
                .iter()
                .any(|form| reference.contains(&form.replace("KEY", &key))),
            "`{key}` is not in the reference"
        );
    }
}

/// The keys of a configuration, without names that users choose.
fn collect_keys(value: &serde_json::Value, keys: &mut Vec<String>) {
    let chosen = [
        "mcp_servers",
        "env",
        "headers",
        "platform_toolsets",
        "extra_body",
    ];
    for (key, value) in value.as_object().into_iter().flatten() {
        keys.push(key.clone());
        match value {
            serde_json::Value::Object(entries) if key == "mcp_servers" || key == "providers" => {
                entries.values().for_each(|entry| collect_keys(entry, keys));
            }
            _ if chosen.contains(&key.as_str()) => {}
            value => collect_keys(value, keys),
        }
    }
}

#[test]
fn the_reference_of_commands_is_the_programs_own() {
    let generated = command_reference();
    let path = workspace().join(REFERENCE);
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, &generated).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == generated,
        "{REFERENCE} is out of date: run `{WRITE}=1 cargo nextest run -p hermes -E 'test(the_reference_of_commands)'`"
    );
}

#[test]
fn the_commands_of_the_original_in_the_guide_are_the_programs_own_list() {
    const GUIDE: &str = "docs/guide/migration.md";
    const BEGIN: &str = "<!-- commands: generated -->\n";
    const END: &str = "<!-- end -->\n";
    let mut rows = String::from("| command of 0.19 | | here |\n|---|---|---|\n");
    for command in ORIGINAL_COMMANDS {
        let _ = writeln!(
            rows,
            "| `{}` | {} | {} |",
            command.name,
            command.support.as_str(),
            command.replacement
        );
    }
    let text = read(GUIDE);
    let (head, rest) = text.split_once(BEGIN).unwrap();
    let (written, tail) = rest.split_once(END).unwrap();
    if std::env::var_os(WRITE).is_some() {
        let text = format!("{head}{BEGIN}{rows}{END}{tail}");
        fs::write(workspace().join(GUIDE), text).unwrap();
        return;
    }
    assert!(
        written == rows,
        "{GUIDE} is out of date: run `{WRITE}=1 cargo nextest run -p hermes -E 'test(the_commands_of_the_original)'`"
    );
}

/// The rows of the table under a heading of a guide, without its first two lines.
fn table<'a>(text: &'a str, heading: &str) -> Vec<Vec<&'a str>> {
    let (_, section) = text
        .split_once(&format!("\n## {heading}\n"))
        .unwrap_or_else(|| panic!("no section {heading}"));
    let section = section.split("\n## ").next().unwrap();
    let lines = section.lines().filter(|line| line.starts_with("| "));
    let rows: Vec<Vec<&str>> = lines
        .skip(1)
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert!(rows.len() > 3, "{heading}: {rows:?}");
    rows
}

/// What stands between backticks.
fn quoted(text: &str) -> BTreeSet<String> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.map(str::to_owned).collect()
}

fn strings<'a>(names: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

#[test]
fn the_toolsets_that_the_guide_lists_are_the_programs_own() {
    let guide = read("docs/guide/migration.md");
    let mut there = BTreeSet::new();
    let mut away = BTreeSet::new();
    for row in table(&guide, "Toolsets") {
        let [names, standing] = row[..] else {
            panic!("{row:?}")
        };
        let is_there = standing.starts_with("yes");
        let list = if is_there { &mut there } else { &mut away };
        list.extend(quoted(names));
        if is_there {
            let known = hermes_agent::conversation::Agent::reserved_names();
            let unknown = quoted(standing)
                .into_iter()
                .find(|tool| !known.contains(tool));
            assert_eq!(unknown, None, "it is not a tool");
        }
    }
    let own = strings(hermes_agent::tools::TOOLSETS);
    assert_eq!(there, own);
    let wrong: Vec<_> = away.intersection(&own).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn the_platforms_that_the_guide_lists_are_the_programs_own() {
    let guide = read("docs/guide/migration.md");
    let own = strings(
        hermes_config::Platform::ALL
            .iter()
            .map(|platform| platform.name()),
    );
    let mut there = BTreeSet::new();
    for row in table(&guide, "Platforms") {
        let [names, out, _] = row[..] else {
            panic!("{row:?}")
        };
        if out.starts_with("yes") {
            there.extend(quoted(names));
        }
    }
    assert_eq!(there, own);
}

#[test]
fn the_commands_that_the_guide_lists_are_commands() {
    let program = Cli::command();
    let verbs: BTreeSet<&str> = program
        .get_subcommands()
        .map(clap::Command::get_name)
        .collect();
    let mut there = 0;
    for command in ORIGINAL_COMMANDS {
        let is_there = command.support == CommandSupport::SameName;
        there += usize::from(is_there);
        assert_eq!(
            verbs.contains(command.name),
            is_there,
            "`hermes {}` is {} in the guide",
            command.name,
            command.support.as_str()
        );
    }
    assert!(there > 10, "only {there}");
}

/// Hermes Agent (Python) itself, which needs the equipment.
mod real_servers {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_original_has_the_commands_that_are_listed_and_no_others() {
        let venv = std::env::var("HERMES_TEST_VENV_HERMES")
            .expect("HERMES_TEST_VENV_HERMES names the environment of Hermes Agent");
        let home = tempfile::tempdir().unwrap();
        let output = Command::new(format!("{venv}/bin/hermes"))
            .arg("--help")
            .env("HERMES_HOME", home.path())
            .output()
            .unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        let (_, rest) = help.split_once('{').unwrap();
        let (names, _) = rest.split_once('}').unwrap();
        let theirs: BTreeSet<&str> = names.split(',').map(str::trim).collect();
        let listed: BTreeSet<&str> = ORIGINAL_COMMANDS
            .iter()
            .map(|command| command.name)
            .collect();
        assert_eq!(listed, theirs);
    }
}

fn command_reference() -> String {
    let mut text = String::from(
        "# Commands\n\nWhat `--help` says, for every command. This page is generated; a test compares it with the program.\n",
    );
    let mut command = Cli::command().term_width(100);
    command.build();
    describe(&mut command, &BTreeSet::new(), &mut text);
    text
}

/// Describes a command and those below it. Global options are described once, with the command that has them first.
fn describe(command: &mut clap::Command, described: &BTreeSet<String>, text: &mut String) {
    let name = command.get_bin_name().unwrap_or("hermes").to_owned();
    let hide_described = |arg: clap::Arg| {
        let is_described = described.contains(arg.get_id().as_str());
        if is_described { arg.hide(true) } else { arg }
    };
    *command = command.clone().mut_args(hide_described);
    let mut described = described.clone();
    described.extend(strings(["help", "version"]));
    let global = command.get_arguments().filter(|arg| arg.is_global_set());
    described.extend(global.map(|arg| arg.get_id().to_string()));
    let help = command.render_long_help().to_string();
    let lines: Vec<&str> = help.lines().map(str::trim_end).collect();
    let _ = write!(
        text,
        "\n## {name}\n\n```text\n{}\n```\n",
        lines.join("\n").trim_end()
    );
    for verb in command
        .get_subcommands_mut()
        .filter(|verb| verb.get_name() != "help")
    {
        describe(verb, &described, text);
    }
}
