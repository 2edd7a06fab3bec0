//! Transcripts by a program of this machine, such as whisper.cpp.

use std::{io, path::Path, process::Stdio};

use hermes_config::{Home, SpeechCommand};
use hermes_mcp::process::{
    command_marker::CommandMarker, descendants::mark_descendants, environment::expand_home,
    sandbox::limit_child_processes,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::Command,
};

use super::{MAX_TRANSCRIPT_BYTES, TranscriptionError};
use crate::tools::terminal::{TerminalSettings, child::ProcessGroup, child_environment};

/// As much of what it says about a failure is kept.
const MAX_STDERR_BYTES: usize = 4096;
/// The longest part of that which is passed on, in characters.
const MAX_REASON_CHARS: usize = 200;
const DEFAULT_LANGUAGE: &str = "auto";
const DEFAULT_MODEL: &str = "base";

/// Runs the program. Dropping the future kills it and its children.
pub(super) async fn transcribe(
    engine: &SpeechCommand,
    terminal: &TerminalSettings,
    home: &Home,
    sound: &Path,
) -> Result<String, TranscriptionError> {
    let environment = child_environment(terminal, home.path());
    // For programs that do not print their text.
    let output = tempfile::tempdir().map_err(|error| TranscriptionError::Unreadable {
        reason: error.to_string(),
    })?;
    let mut words = engine
        .words
        .iter()
        .map(|word| fill_word(word, engine, sound, output.path()));
    let program = words.next().unwrap_or_default();
    let failed = |reason: String| TranscriptionError::Program {
        program: program.clone(),
        reason,
    };
    if let Some(guard) = &terminal.guard {
        guard.start();
    }
    let marker = CommandMarker::new();
    let mut command = Command::new(expand_home(&program, &environment));
    limit_child_processes(&mut command);
    mark_descendants(&mut command);
    let mut child = command
        .args(words)
        .current_dir(home.path())
        .env_clear()
        .envs(environment)
        .envs([marker.variable()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| failed(format!("cannot be started: {error}")))?;
    let _group = ProcessGroup::of_child(&child);
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (printed, complaint, status) = tokio::join!(
        read_output(stdout, MAX_TRANSCRIPT_BYTES),
        read_output(stderr, MAX_STDERR_BYTES),
        child.wait(),
    );
    let status = status.map_err(|error| failed(error.to_string()))?;
    if !status.success() {
        let complaint = String::from_utf8_lossy(&complaint.bytes);
        let last = complaint
            .lines()
            .map(str::trim)
            .rfind(|line| !line.is_empty());
        let last: String = last
            .unwrap_or("it says nothing about it")
            .chars()
            .take(MAX_REASON_CHARS)
            .collect();
        return Err(failed(format!("ended with {status}: {last}")));
    }
    let said = read_written(output.path()).await.unwrap_or(printed);
    if said.is_cut {
        return Err(failed("gave more than 1 MB of text".into()));
    }
    Ok(String::from_utf8_lossy(&said.bytes).into_owned())
}

fn fill_word(word: &str, engine: &SpeechCommand, sound: &Path, output: &Path) -> String {
    let sound = sound.to_string_lossy();
    let file = output.join(OUTPUT_FILE);
    let (directory, file) = (output.to_string_lossy(), file.to_string_lossy());
    let values = [
        ("{path}", sound.as_ref()),
        ("{input_path}", sound.as_ref()),
        (
            "{language}",
            engine.language.as_deref().unwrap_or(DEFAULT_LANGUAGE),
        ),
        ("{model}", engine.model.as_deref().unwrap_or(DEFAULT_MODEL)),
        ("{output_dir}", directory.as_ref()),
        ("{output_path}", file.as_ref()),
    ];
    // One pass, so that nothing within a value is taken for a place.
    let mut filled = String::new();
    let mut rest = word;
    while let Some(at) = rest.find('{') {
        filled.push_str(&rest[..at]);
        rest = &rest[at..];
        let known = values.iter().find(|(place, _)| rest.starts_with(place));
        let (place, value) = known.copied().unwrap_or(("{", "{"));
        filled.push_str(value);
        rest = &rest[place.len()..];
    }
    filled.push_str(rest);
    filled
}

const OUTPUT_FILE: &str = "transcript.txt";

/// What a program wrote that does not print its text: in the file of that name, else in the first text file.
async fn read_written(directory: &Path) -> Option<ProgramOutput> {
    let named = directory.join(OUTPUT_FILE);
    let path = if named.is_file() {
        named
    } else {
        let files = std::fs::read_dir(directory).ok()?;
        let files = files.filter_map(|entry| Some(entry.ok()?.path()));
        files
            .filter(|path| path.extension().is_some_and(|it| it == "txt"))
            .min()?
    };
    let file = tokio::fs::File::open(path).await.ok()?;
    Some(read_output(Some(file), MAX_TRANSCRIPT_BYTES).await)
}

/// What a program printed.
#[derive(Default)]
struct ProgramOutput {
    bytes: Vec<u8>,
    /// There was more.
    is_cut: bool,
}

/// Reads to the end, and keeps as much as the limit allows, so that the program never waits for a reader.
async fn read_output(reader: Option<impl AsyncRead + Unpin>, limit: usize) -> ProgramOutput {
    let mut output = ProgramOutput::default();
    let Some(mut reader) = reader else {
        return output;
    };
    let mut buffer = vec![0; 8192];
    while let Some(count) = read_some(&mut reader, &mut buffer).await {
        let room = limit - output.bytes.len();
        output.is_cut |= count > room;
        output.bytes.extend_from_slice(&buffer[..count.min(room)]);
    }
    output
}

/// How much was read; `None` at the end.
async fn read_some(reader: &mut (impl AsyncRead + Unpin), buffer: &mut [u8]) -> Option<usize> {
    let count: io::Result<usize> = reader.read(buffer).await;
    count.ok().filter(|count| *count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_once_and_other_braces_stay() {
        let engine = SpeechCommand {
            words: Vec::new(),
            language: Some("de".into()),
            model: None,
        };
        let sound = Path::new("/c/{model}.ogg");
        let fill = |word| fill_word(word, &engine, sound, Path::new("/o"));
        assert_eq!(fill("{path}"), "/c/{model}.ogg");
        assert_eq!(fill("-l={language},{model},{x}"), "-l=de,base,{x}");
        assert_eq!(fill("{output_path}"), "/o/transcript.txt");
    }
}
