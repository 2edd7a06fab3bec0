//! `read_file`: part of a text file with line numbers. Large results of untrusted tools are in files of the home with a
//! file beside them that names the source; reading one back marks the content as data.

use std::{
    fs,
    fs::File,
    io,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
};

use futures::future::BoxFuture;
use hermes_config::{
    Home,
    private_file::{FileDurability, WriteOptions, write_file},
};
use serde_json::{Map, Value, json};

use crate::{
    model::ToolDefinition,
    tools::{
        ToolError,
        arguments::ToolArguments,
        files::{path_access, path_access::AccessPurpose},
        into_output, path_concurrency, run_blocking,
        tool::{Concurrency, Tool, ToolContext, ToolOutput},
        tool_definition,
    },
};

const DEFAULT_LINES: usize = 500;
const MAX_LINES: usize = 2000;
const MAX_LINE_CHARS: usize = 2000;
const MAX_CHARS: usize = 100_000;
/// In larger files the lines are not counted.
const MAX_COUNTED_BYTES: u64 = 50_000_000;

#[derive(Debug, Clone, Copy, Default)]
pub struct ReadFileTool;

impl Tool for ReadFileTool {
    fn definition(&self) -> ToolDefinition {
        tool_definition(
            "read_file",
            "Reads a text file and returns its lines with their numbers, as `NUMBER|LINE`. Use it instead of cat, head \
             or tail. At most 2000 lines at once; go on with offset.",
            json!({
                "path": {"type": "string", "description": "The file: absolute, relative to the working directory, or beginning with ~/"},
                "offset": {"type": "integer", "description": "First line, counted from 1", "default": 1, "minimum": 1},
                "limit": {"type": "integer", "description": "Number of lines", "default": DEFAULT_LINES, "minimum": 1, "maximum": MAX_LINES},
            }),
            &["path"],
        )
    }

    fn toolset(&self) -> &'static str {
        "file"
    }

    fn concurrency(&self, arguments: &Map<String, Value>, context: &ToolContext) -> Concurrency {
        path_concurrency(arguments, context)
    }

    fn call<'a>(
        &'a self,
        arguments: Map<String, Value>,
        context: &'a ToolContext,
    ) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let output = into_output(read_lines(&ToolArguments::new(arguments), context).await);
            // It has its own limit, and is how the model reads results that were moved to a file.
            ToolOutput {
                may_be_persisted: false,
                ..output
            }
        })
    }
}

async fn read_lines(
    arguments: &ToolArguments,
    context: &ToolContext,
) -> Result<ToolOutput, ToolError> {
    let path = arguments.required_text("path")?;
    let offset = arguments.size("offset", 1, 1..=usize::MAX)?;
    let limit = arguments.size("limit", DEFAULT_LINES, 1..=MAX_LINES)?;
    let map = path_access::PathRules::from_context(context);
    let home = context.home.clone();
    let real =
        path_access::authorize_path("read_file", &path, AccessPurpose::Read, &map, context).await?;
    run_blocking(move || {
        let file = map
            .open(&real)
            .map_err(|error| unreadable_error(&path, &real, &error))?;
        let size = file.metadata().map_or(0, |metadata| metadata.len());
        let window = read_window(file, offset, limit, size <= MAX_COUNTED_BYTES)
            .map_err(|error| ToolError::new(format!("{path}: {error}")))?;
        Ok(ToolOutput {
            untrusted_source: read_source(&home, &real).map(Into::into),
            ..ToolOutput::text(window.render(&path, offset))
        })
    })
    .await
}

fn unreadable_error(path: &str, real: &Path, error: &io::Error) -> ToolError {
    match error.kind() {
        io::ErrorKind::IsADirectory => ToolError::new(format!(
            "{path} is a directory; list it with search_files and target=files"
        )),
        io::ErrorKind::NotFound => ToolError::new(match similar_names(real) {
            names if names.is_empty() => format!("{path} does not exist"),
            names => format!(
                "{path} does not exist. Similar names in its directory: {}",
                names.join(", ")
            ),
        }),
        _ => ToolError::new(format!("{path} cannot be read: {error}")),
    }
}

/// Similar names in the same directory: other case or extension.
fn similar_names(path: &Path) -> Vec<String> {
    let stem = |path: &Path| {
        path.file_stem()
            .map(|stem| stem.to_string_lossy().to_lowercase())
    };
    let (Some(wanted), Some(directory)) = (stem(path), path.parent()) else {
        return Vec::new();
    };
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let is_similar = |name: &String| {
        let other = stem(Path::new(name)).unwrap_or_default();
        wanted.len() > 2 && (other.contains(&wanted) || wanted.contains(&other) && other.len() > 2)
    };
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(is_similar)
        .collect();
    names.sort();
    names.truncate(5);
    names
}

#[derive(Debug, Default)]
struct FileWindow {
    text: String,
    /// How many lines `text` has.
    lines: usize,
    /// All lines, where they were counted.
    total: Option<usize>,
    has_more: bool,
}

impl FileWindow {
    fn render(self, path: &str, offset: usize) -> String {
        let total = self
            .total
            .map(|total| format!(" of {total}"))
            .unwrap_or_default();
        if self.lines == 0 {
            return match self.total {
                Some(0) => format!("[{path} is empty]"),
                _ => format!(
                    "[{path} has no line {offset}; it ends at line{}]",
                    total.replace(" of", "")
                ),
            };
        }
        let last = offset + self.lines - 1;
        if self.has_more {
            let next = last + 1;
            let text = &self.text;
            return format!("{text}\n[lines {offset}-{last}{total}; go on with offset={next}]");
        }
        self.text
    }
}

fn read_window(
    file: File,
    offset: usize,
    limit: usize,
    counts_all: bool,
) -> io::Result<FileWindow> {
    let mut reader = BufReader::with_capacity(64 * 1024, file);
    if reader.fill_buf()?.iter().take(8192).any(|&byte| byte == 0) {
        return Err(io::Error::other(
            "it is a binary file; only text can be read",
        ));
    }
    let mut window = FileWindow::default();
    let mut characters = 0;
    let mut number = 0;
    while let Some(line) = next_line(&mut reader)? {
        number += 1;
        if number < offset {
            continue;
        }
        let rendered = format!("{number:>6}|{}\n", line.text(number == 1));
        let length = rendered.chars().count();
        if window.has_more || window.lines == limit || characters + length > MAX_CHARS {
            window.has_more = true;
            if counts_all {
                continue;
            }
            return Ok(window);
        }
        characters += length;
        window.text.push_str(&rendered);
        window.lines += 1;
    }
    window.total = Some(number);
    Ok(window)
}

/// The start of a line, and the number of omitted bytes.
struct FileLine {
    head: Vec<u8>,
    left_out: usize,
}

impl FileLine {
    fn text(&self, is_first: bool) -> String {
        let head = if is_first {
            self.head
                .strip_prefix(b"\xEF\xBB\xBF")
                .unwrap_or(&self.head)
        } else {
            &self.head
        };
        let text = String::from_utf8_lossy(head);
        let text = text.trim_end_matches('\r');
        match text.char_indices().nth(MAX_LINE_CHARS) {
            Some((end, _)) => format!("{}… [line cut]", &text[..end]),
            None if self.left_out > 0 => format!("{text}… [line cut]"),
            None => text.to_owned(),
        }
    }
}

/// Reads a line, keeping no more of it than can be shown.
fn next_line(reader: &mut impl BufRead) -> io::Result<Option<FileLine>> {
    const MAX_LINE_BYTES: usize = MAX_LINE_CHARS * 4 + 4;
    let mut line = FileLine {
        head: Vec::new(),
        left_out: 0,
    };
    let mut has_begun = false;
    loop {
        let buffer = reader.fill_buf()?;
        if buffer.is_empty() {
            return Ok(has_begun.then_some(line));
        }
        has_begun = true;
        let end = buffer.iter().position(|&byte| byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let kept = part
            .len()
            .min(MAX_LINE_BYTES.saturating_sub(line.head.len()));
        line.head.extend_from_slice(&part[..kept]);
        line.left_out += part.len() - kept;
        let used = part.len() + usize::from(end.is_some());
        reader.consume(used);
        if end.is_some() {
            return Ok(Some(line));
        }
    }
}

pub(crate) const DIRECTORY: &str = "results";

/// Records the outside tool that a result is from.
pub(crate) fn record_source(path: &Path, source: &str) -> io::Result<()> {
    let options = WriteOptions {
        durability: FileDurability::Unsynced,
        ..WriteOptions::default()
    };
    write_file(&source_note_path(path), source.as_bytes(), options)
}

/// The outside tool of the result in this file; for the directory of all results, its name. `path` has no
/// links in it.
pub(crate) fn read_source(home: &Home, path: &Path) -> Option<String> {
    let directory = home.path().join(DIRECTORY).canonicalize().ok()?;
    if path == directory {
        // Anything in it may be from outside.
        return Some(DIRECTORY.to_owned());
    }
    if path.parent() != Some(&directory) {
        return None;
    }
    fs::read_to_string(source_note_path(path)).ok()
}

fn source_note_path(path: &Path) -> PathBuf {
    path.with_extension("source")
}
