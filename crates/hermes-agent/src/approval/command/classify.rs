//! Classifies a command line: allowed, needs approval, or blocked.

use std::path::{Path, PathBuf};

use super::{
    code, directories,
    directories::OtherDirectories,
    programs,
    programs::NestedCommand,
    rules::{RULES, SANDBOX_COVERED_RULES},
    shell,
    shell::{ShellCommand, ShellWord},
};
use crate::approval::{
    command::{paths, written_files, written_files::WrittenFiles},
    protected::ProtectedPaths,
};

/// Nested lines, as in `bash -c "sudo sh -c …"`.
const MAX_LINE_NESTING: usize = 8;
/// The rule for lines that cannot be parsed.
const TOO_COMPLEX_RULE: &str = "command too complex to check";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandContext {
    pub directory: PathBuf,
    pub protected_paths: ProtectedPaths,
    /// Files that were written earlier in the same session.
    pub written_files: WrittenFiles,
    pub other_directories: OtherDirectories,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    Ask,
    Block,
}

/// A rule that applies to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule's name, as answers and allow lists refer to it.
    pub rule: &'static str,
    pub reason: String,
    /// The part of the line that the rule applies to.
    pub command: String,
}

impl Finding {
    /// Whether a sandbox for commands already prevents what the rule is about.
    pub(crate) fn is_covered_by_sandbox(&self) -> bool {
        SANDBOX_COVERED_RULES.contains(&self.rule)
    }
}

/// The classification of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Blocked, whatever the settings say.
    Block(Finding),
    /// Needs approval, for each of these reasons.
    Ask(Vec<Finding>),
    Allow,
}

pub fn classify(line: &str, context: &CommandContext) -> Verdict {
    let mut findings = Vec::new();
    classify_line(line, context, 0, &mut findings);
    into_verdict(findings)
}

pub(crate) fn find_written_files(line: &str, context: &CommandContext) -> WrittenFiles {
    classify_line(line, context, 0, &mut Vec::new())
}

fn into_verdict(mut findings: Findings) -> Verdict {
    let never = findings
        .iter()
        .position(|(weight, _)| *weight == Severity::Block);
    if let Some(index) = never {
        return Verdict::Block(findings.swap_remove(index).1);
    }
    if findings.is_empty() {
        return Verdict::Allow;
    }
    Verdict::Ask(findings.into_iter().map(|(_, finding)| finding).collect())
}

/// The text of each command in a line, also without wrappers such as `sudo`. For patterns that name commands.
pub(crate) fn command_texts(line: &str, context: &CommandContext) -> Vec<String> {
    let mut texts = Vec::new();
    let Ok(commands) = shell::parse(line) else {
        return texts;
    };
    for (index, command) in commands.iter().enumerate() {
        let mut words = command.words.clone();
        loop {
            texts.push(shell::join_words(&words));
            let run = Invocation::new(&words, command, &commands[..index], context);
            let Some(run) = run else { break };
            let mut inner = programs::nested_commands(&run);
            match inner.pop() {
                Some(NestedCommand::Words(inner)) if texts.len() < 1000 => words = inner,
                Some(NestedCommand::Line(inner)) if inner != line && inner.len() < line.len() => {
                    texts.extend(command_texts(&inner, context));
                    break;
                }
                _ => break,
            }
        }
    }
    texts
}

pub(crate) type Findings = Vec<(Severity, Finding)>;

/// One program invocation, as rules see it.
pub(crate) struct Invocation<'a> {
    /// The program as it is written.
    pub(crate) program: &'a ShellWord,
    /// The program without its directory.
    pub(crate) name: &'a str,
    pub(crate) arguments: &'a [ShellWord],
    /// The command that it is in.
    pub(crate) command: &'a ShellCommand,
    /// The commands of the line before it.
    pub(crate) preceding: &'a [ShellCommand],
    pub(crate) directory: &'a Path,
    pub(crate) protected_paths: &'a ProtectedPaths,
    pub(crate) written_files: &'a WrittenFiles,
    other_directories: &'a OtherDirectories,
}

impl<'a> Invocation<'a> {
    fn new(
        words: &'a [ShellWord],
        command: &'a ShellCommand,
        before: &'a [ShellCommand],
        context: &'a CommandContext,
    ) -> Option<Self> {
        let (first, arguments) = words.split_first()?;
        let name = first.text.rsplit('/').next().unwrap_or(&first.text);
        Some(Self {
            program: first,
            name,
            arguments,
            command,
            preceding: before,
            directory: &context.directory,
            protected_paths: &context.protected_paths,
            written_files: &context.written_files,
            other_directories: &context.other_directories,
        })
    }

    /// The paths a word can mean, and their targets if they are links.
    pub(crate) fn paths(&self, word: &str) -> Vec<PathBuf> {
        let mut paths = paths::expand_paths(word, self.directory, self.protected_paths);
        let real: Vec<PathBuf> = paths
            .iter()
            .filter_map(|path| path.canonicalize().ok())
            .collect();
        for path in real {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        paths
    }

    /// The protected paths that a relative word means where the line may be as well.
    pub(crate) fn paths_elsewhere(&self, word: &str) -> Vec<PathBuf> {
        self.other_directories.paths(word, self.protected_paths)
    }

    /// Whether the line goes to a directory that only a running shell knows.
    pub(crate) fn is_directory_unknown(&self) -> bool {
        self.other_directories.is_unknown()
    }

    /// Its input, where the line itself contains it.
    pub(crate) fn input(&self) -> Option<String> {
        if let Some(input) = &self.command.input {
            return Some(input.clone());
        }
        let writer = self.preceding.last().filter(|_| self.command.reads_pipe)?;
        let (name, arguments) = writer.words.split_first()?;
        match &*name.text {
            "echo" | "printf" => {
                let arguments = programs::without_options(arguments, &[]);
                Some(shell::join_words(arguments).replace("\\n", "\n"))
            }
            "cat" => writer.input.clone(),
            _ => None,
        }
    }

    /// Whether an option is given, alone or among one-letter options.
    pub(crate) fn has_flag(&self, letter: char, long: &str) -> bool {
        self.arguments
            .iter()
            .take_while(|word| word.text != "--")
            .any(|word| {
                let text = word.text.as_str();
                match text.strip_prefix("--") {
                    Some(name) => !name.is_empty() && long.starts_with(name) && name.len() > 2,
                    None => text.starts_with('-') && text.contains(letter),
                }
            })
    }

    /// The arguments that are not options.
    pub(crate) fn operands(&self) -> impl Iterator<Item = &'a str> {
        let mut options = true;
        self.arguments.iter().filter_map(move |word| {
            let text = word.text.as_str();
            if options && text == "--" {
                options = false;
                return None;
            }
            (!options || !text.starts_with('-') || text == "-").then_some(text)
        })
    }
}

/// Classifies all commands of a line. Returns the files written after it.
pub(crate) fn classify_line(
    line: &str,
    context: &CommandContext,
    depth: usize,
    findings: &mut Findings,
) -> WrittenFiles {
    let commands = match shell::parse(line) {
        Ok(commands) if depth <= MAX_LINE_NESTING => commands,
        _ => {
            let reason = "cannot be checked: too long or too deeply nested".to_owned();
            let command = line.chars().take(200).collect();
            findings.push((
                Severity::Ask,
                Finding {
                    rule: TOO_COMPLEX_RULE,
                    reason,
                    command,
                },
            ));
            return context.written_files.clone();
        }
    };
    let mut context = context.clone();
    for (index, command) in commands.iter().enumerate() {
        let mut line = LineState {
            written: context.written_files.clone(),
            findings: &mut *findings,
        };
        let position = CommandPosition {
            command,
            before: &commands[..index],
            context: &context,
        };
        classify_words(&command.words, &position, depth, &mut line);
        context.written_files = line.written;
        directories::follow(&command.words, &mut context);
    }
    context.written_files
}

/// Where a command is.
struct CommandPosition<'a> {
    command: &'a ShellCommand,
    /// The commands of the line before it.
    before: &'a [ShellCommand],
    context: &'a CommandContext,
}

/// What is known of a line so far.
struct LineState<'a> {
    written: WrittenFiles,
    findings: &'a mut Findings,
}

fn classify_words(
    words: &[ShellWord],
    position: &CommandPosition<'_>,
    depth: usize,
    line: &mut LineState<'_>,
) {
    // A redirection alone is a command too: `> file`.
    let nothing = [ShellWord::default()];
    let words = if words.is_empty() { &nothing } else { words };
    let CommandPosition {
        command,
        before,
        context,
    } = *position;
    let Some(run) = Invocation::new(words, command, before, context) else {
        return;
    };
    for rule in RULES {
        if (rule.applies)(&run) {
            add_finding(line.findings, rule.severity, rule.name, rule.reason, || {
                shell::join_words(words)
            });
        }
    }
    for (target, record) in written_files::output_files(&run) {
        for path in run.paths(&target) {
            line.written.add(path, record);
        }
    }
    if depth > MAX_LINE_NESTING {
        return;
    }
    // `env -C d`
    let elsewhere = programs::inner_directory(&run).map(|target| {
        let mut context = context.clone();
        directories::enter(&target, &mut context);
        context
    });
    let context = elsewhere.as_ref().unwrap_or(context);
    for inner in programs::nested_commands(&run) {
        match inner {
            NestedCommand::Words(words) => {
                let position = CommandPosition {
                    context,
                    ..*position
                };
                classify_words(&words, &position, depth + 1, line);
            }
            NestedCommand::Line(text) => {
                let written = classify_line(&text, context, depth + 1, line.findings);
                line.written.merge(&written);
            }
            NestedCommand::Code(text) => {
                code::classify_code(&text, context, depth + 1, line.findings);
            }
        }
    }
}

/// Adds a finding, once for each rule and command.
pub(crate) fn add_finding(
    findings: &mut Findings,
    weight: Severity,
    rule: &'static str,
    reason: &str,
    command: impl FnOnce() -> String,
) {
    let command = command();
    if !findings
        .iter()
        .any(|(_, known)| known.rule == rule && known.command == command)
    {
        findings.push((
            weight,
            Finding {
                rule,
                reason: reason.to_owned(),
                command,
            },
        ));
    }
}

#[cfg(test)]
mod tests;
