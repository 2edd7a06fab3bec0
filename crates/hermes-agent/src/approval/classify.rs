//! Classifies a command line: allowed, needs approval, or blocked.

use std::path::{Path, PathBuf};

use super::{
    code,
    programs::{self, Inner},
    protected::Landmarks,
    rules::{HELD_BY_SANDBOX, RULES},
    shell::{self, Command, Word},
    targets,
    written::{self, Written},
};

/// Nested lines, as in `bash -c "sudo sh -c …"`.
const DEEPEST: usize = 8;
/// The rule for lines that cannot be parsed.
const UNREADABLE: &str = "command too complex to check";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scene {
    pub directory: PathBuf,
    pub landmarks: Landmarks,
    /// Files that were written earlier in the same session.
    pub written: Written,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    Ask,
    Never,
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
    pub(super) fn is_held_by_sandbox(&self) -> bool {
        HELD_BY_SANDBOX.contains(&self.rule)
    }
}

/// The classification of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Blocked, whatever the settings say.
    Hardline(Finding),
    /// Needs approval, for each of these reasons.
    Ask(Vec<Finding>),
    Fine,
}

pub fn classify(line: &str, scene: &Scene) -> Verdict {
    let mut findings = Vec::new();
    look_at_line(line, scene, 0, &mut findings);
    verdict(findings)
}

pub(super) fn files_written(line: &str, scene: &Scene) -> Written {
    look_at_line(line, scene, 0, &mut Vec::new())
}

fn verdict(mut findings: Findings) -> Verdict {
    let never = findings
        .iter()
        .position(|(weight, _)| *weight == Weight::Never);
    if let Some(index) = never {
        return Verdict::Hardline(findings.swap_remove(index).1);
    }
    if findings.is_empty() {
        return Verdict::Fine;
    }
    Verdict::Ask(findings.into_iter().map(|(_, finding)| finding).collect())
}

/// The text of each command in a line, also without wrappers such as `sudo`. For patterns that name commands.
pub(super) fn command_texts(line: &str, scene: &Scene) -> Vec<String> {
    let mut texts = Vec::new();
    let Ok(commands) = shell::parse(line) else {
        return texts;
    };
    for (index, command) in commands.iter().enumerate() {
        let mut words = command.words.clone();
        loop {
            texts.push(shell::text_of(&words));
            let run = Run::new(&words, command, &commands[..index], &scene.directory, scene);
            let Some(run) = run else { break };
            let mut inner = programs::inner(&run);
            match inner.pop() {
                Some(Inner::Words(inner)) if texts.len() < 1000 => words = inner,
                Some(Inner::Line(inner)) if inner != line && inner.len() < line.len() => {
                    texts.extend(command_texts(&inner, scene));
                    break;
                }
                _ => break,
            }
        }
    }
    texts
}

pub(super) type Findings = Vec<(Weight, Finding)>;

/// One program invocation, as rules see it.
pub(super) struct Run<'a> {
    /// The program as it is written.
    pub(super) program: &'a Word,
    /// The program without its directory.
    pub(super) name: &'a str,
    pub(super) arguments: &'a [Word],
    /// The command that it is in.
    pub(super) command: &'a Command,
    /// The commands of the line before it.
    pub(super) before: &'a [Command],
    pub(super) directory: &'a Path,
    pub(super) landmarks: &'a Landmarks,
    pub(super) written: &'a Written,
}

impl<'a> Run<'a> {
    fn new(
        words: &'a [Word],
        command: &'a Command,
        before: &'a [Command],
        directory: &'a Path,
        scene: &'a Scene,
    ) -> Option<Self> {
        let (first, arguments) = words.split_first()?;
        let name = first.text.rsplit('/').next().unwrap_or(&first.text);
        let landmarks = &scene.landmarks;
        Some(Self {
            program: first,
            name,
            arguments,
            command,
            before,
            directory,
            landmarks,
            written: &scene.written,
        })
    }

    /// The paths a word can mean, and their targets if they are links.
    pub(super) fn paths(&self, word: &str) -> Vec<PathBuf> {
        let mut paths = targets::paths(word, self.directory, self.landmarks);
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

    /// Its input, where the line itself contains it.
    pub(super) fn input(&self) -> Option<String> {
        if let Some(input) = &self.command.input {
            return Some(input.clone());
        }
        let writer = self.before.last().filter(|_| self.command.reads_pipe)?;
        let (name, arguments) = writer.words.split_first()?;
        match &*name.text {
            "echo" | "printf" => {
                let arguments = programs::without_options(arguments, &[]);
                Some(shell::text_of(arguments).replace("\\n", "\n"))
            }
            "cat" => writer.input.clone(),
            _ => None,
        }
    }

    /// Whether an option is given, alone or among one-letter options.
    pub(super) fn has_flag(&self, letter: char, long: &str) -> bool {
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
    pub(super) fn operands(&self) -> impl Iterator<Item = &'a str> {
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
pub(super) fn look_at_line(
    line: &str,
    scene: &Scene,
    depth: usize,
    findings: &mut Findings,
) -> Written {
    let commands = match shell::parse(line) {
        Ok(commands) if depth <= DEEPEST => commands,
        _ => {
            let reason = "cannot be checked: too long or too deeply nested".to_owned();
            let command = line.chars().take(200).collect();
            findings.push((
                Weight::Ask,
                Finding {
                    rule: UNREADABLE,
                    reason,
                    command,
                },
            ));
            return scene.written.clone();
        }
    };
    let mut scene = scene.clone();
    let mut directory = scene.directory.clone();
    for (index, command) in commands.iter().enumerate() {
        let before = &commands[..index];
        look_at_words(
            &command.words,
            command,
            before,
            &directory,
            &scene,
            depth,
            findings,
        );
        let outputs: Vec<(PathBuf, written::Origin)> =
            Run::new(&command.words, command, before, &directory, &scene)
                .iter()
                .flat_map(|run| {
                    let outputs = written::outputs(run).into_iter();
                    outputs.flat_map(|(target, origin)| {
                        let paths = run.paths(&target).into_iter();
                        paths.map(move |path| (path, origin))
                    })
                })
                .collect();
        for (path, origin) in outputs {
            scene.written.add(path, origin);
        }
        if let [cd, target] = command.words.as_slice()
            && (cd.text == "cd" || cd.text == "pushd")
            && let Some(path) = targets::paths(&target.text, &directory, &scene.landmarks)
                .into_iter()
                .next()
        {
            directory = path;
        }
    }
    scene.written
}

fn look_at_words(
    words: &[Word],
    command: &Command,
    before: &[Command],
    directory: &Path,
    scene: &Scene,
    depth: usize,
    findings: &mut Findings,
) {
    // A redirection alone is a command too: `> file`.
    let nothing = [Word::default()];
    let words = if words.is_empty() { &nothing } else { words };
    let Some(run) = Run::new(words, command, before, directory, scene) else {
        return;
    };
    for rule in RULES {
        if (rule.holds)(&run) {
            add(findings, rule.weight, rule.name, rule.reason, || {
                shell::text_of(words)
            });
        }
    }
    if depth > DEEPEST {
        return;
    }
    let here = || Scene {
        directory: directory.to_path_buf(),
        ..scene.clone()
    };
    for inner in programs::inner(&run) {
        match inner {
            Inner::Words(words) => look_at_words(
                &words,
                command,
                before,
                directory,
                scene,
                depth + 1,
                findings,
            ),
            Inner::Line(line) => {
                look_at_line(&line, &here(), depth + 1, findings);
            }
            Inner::Code(text) => code::look_at(&text, &here(), depth + 1, findings),
        }
    }
}

/// Adds a finding, once for each rule and command.
pub(super) fn add(
    findings: &mut Findings,
    weight: Weight,
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
