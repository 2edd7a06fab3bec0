//! Keeps large results out of the conversation: the full text goes to a file, the model gets a preview.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use hermes_config::private_file::{
    ExistingFile, FileDurability, FileOwner, WriteOptions, create_private_dirs, write_file,
};
use serde_json::Value;

use crate::{
    message::ToolCall,
    tools::{
        files::read_file,
        tool::{ToolContext, ToolOutput},
    },
};

/// Size limits of results, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultSizeLimits {
    pub per_result: usize,
    pub per_message: usize,
}

impl Default for ResultSizeLimits {
    fn default() -> Self {
        Self {
            per_result: 100_000,
            per_message: 200_000,
        }
    }
}

impl ResultSizeLimits {
    /// The limits for a context of this many tokens: one result never takes more than a quarter.
    pub fn for_context(tokens: Option<u32>) -> Self {
        let usual = Self::default();
        let Some(tokens) = tokens.and_then(|tokens| usize::try_from(tokens).ok()) else {
            return usual;
        };
        // Four characters a token, a quarter of them.
        Self {
            per_result: usual.per_result.min(tokens),
            per_message: usual.per_message.min(tokens * 2),
        }
    }
}

/// A text that was moved to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PersistedResult {
    pub path: PathBuf,
    pub preview: String,
}

/// How much of a large text the model gets, in characters.
const PREVIEW_CHARS: usize = 1_500;
/// Longest file name, without extension.
const MAX_NAME_CHARS: usize = 120;

/// The remaining budget of the results of one message.
pub(super) struct ResultBudget {
    limits: ResultSizeLimits,
    used: usize,
}

impl ResultBudget {
    pub(super) fn new(limits: &ResultSizeLimits) -> Self {
        Self {
            limits: *limits,
            used: 0,
        }
    }

    /// Moves results that are too large to files, the largest first. Earlier results stay.
    pub(super) async fn fit_results(
        &mut self,
        calls: &[ToolCall],
        outputs: &mut [ToolOutput],
        context: &ToolContext,
    ) {
        let sizes: Vec<usize> = outputs
            .iter()
            .map(|output| output.text.chars().count())
            .collect();
        self.used += sizes.iter().sum::<usize>();
        let mut by_size: Vec<usize> = (0..outputs.len())
            .filter(|index| outputs[*index].may_be_persisted)
            .collect();
        by_size.sort_by_key(|index| std::cmp::Reverse(sizes[*index]));
        for index in by_size {
            let size = sizes[index];
            let is_crowded = self.used > self.limits.per_message && size > PREVIEW_CHARS * 2;
            if size <= self.limits.per_result && !is_crowded {
                break;
            }
            let output = &mut outputs[index];
            let text = format_readable(std::mem::take(&mut output.text));
            let source = output.untrusted_source.clone();
            output.text =
                match persist_result(context.home.path(), &calls[index].id, &text, source).await {
                    Ok(persisted) => persisted.preview,
                    Err(error) => {
                        truncate_with_reason(&text, self.limits.per_result, &error.to_string())
                    }
                };
            self.used = self.used - size + output.text.chars().count();
        }
    }
}

/// Formats JSON results with line breaks: a file with a single line cannot be read by lines.
fn format_readable(text: String) -> String {
    let Ok(Value::Object(members)) = serde_json::from_str(&text) else {
        return text;
    };
    let has_one = members.len() == 1;
    let parts: Vec<String> = members
        .into_iter()
        .map(|(name, value)| match value {
            Value::String(text) if has_one && name == "result" => text,
            Value::String(text) => format!("{name}:\n{text}"),
            value => format!("{name}:\n{value:#}"),
        })
        .collect();
    parts.join("\n\n")
}

/// Writes a text to the home's `results` and describes it.
async fn persist_result(
    home: &Path,
    call_id: &str,
    text: &str,
    source: Option<Arc<str>>,
) -> io::Result<PersistedResult> {
    let directory = home.join(read_file::DIRECTORY);
    let (name, content) = (safe_name(call_id), text.to_owned());
    let write = move || {
        let path = write_new_file(&directory, &name, content.as_bytes())?;
        if let Some(source) = source {
            read_file::record_source(&path, &source)?;
        }
        Ok::<_, io::Error>(path)
    };
    let path = tokio::task::spawn_blocking(write)
        .await
        .map_err(io::Error::other)??;
    let beginning: String = text.chars().take(PREVIEW_CHARS).collect();
    let preview = format!(
        "<persisted-output path=\"{}\" characters=\"{}\">\n{}\n…\n</persisted-output>\nThe whole text is in that file; \
         read the parts you need.",
        path.display(),
        text.chars().count(),
        beginning.replace("persisted-output", "persisted output"),
    );
    Ok(PersistedResult { path, preview })
}

/// Writes a new private file. An id that was used before gets a number: other messages refer to that
/// file.
fn write_new_file(directory: &Path, name: &str, content: &[u8]) -> io::Result<PathBuf> {
    create_private_dirs(directory, FileOwner::Writer)?;
    let options = WriteOptions {
        existing: ExistingFile::Refuse,
        durability: FileDurability::Unsynced,
        ..WriteOptions::default()
    };
    let mut number = 1;
    loop {
        let path = directory.join(match number {
            1 => format!("{name}.txt"),
            _ => format!("{name}-{number}.txt"),
        });
        match write_file(&path, content, options) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(error),
        }
    }
}

fn safe_name(call_id: &str) -> String {
    let is_safe = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    let letters = call_id.chars().take(MAX_NAME_CHARS);
    let safe: String = letters
        .map(|letter| if is_safe(letter) { letter } else { '_' })
        .collect();
    match safe.as_str() {
        "" => "call".to_owned(),
        _ => safe,
    }
}

fn truncate_with_reason(text: &str, limit: usize, reason: &str) -> String {
    let beginning: String = text.chars().take(limit).collect();
    format!("{beginning}\n[cut: the rest could not be kept in a file: {reason}]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_in_json_become_lines() {
        let readable = |text: &str| format_readable(text.to_owned());
        assert_eq!(readable("{\"result\": \"a\\nb\"}"), "a\nb");
        assert_eq!(
            readable("{\"output\": \"a\\nb\", \"exit_code\": 0}"),
            "output:\na\nb\n\nexit_code:\n0"
        );
        assert_eq!(readable("[1]"), "[1]");
        assert_eq!(readable("no { JSON"), "no { JSON");
    }

    #[test]
    fn a_small_context_gets_small_results() {
        assert_eq!(ResultSizeLimits::for_context(Some(8_000)).per_result, 8_000);
        assert_eq!(
            ResultSizeLimits::for_context(Some(1_000_000)),
            ResultSizeLimits::default()
        );
        assert_eq!(
            ResultSizeLimits::for_context(None),
            ResultSizeLimits::default()
        );
    }

    #[test]
    fn a_call_id_cannot_lead_out_of_the_directory() {
        assert_eq!(safe_name("../../x/call 1"), "______x_call_1");
        assert_eq!(safe_name(""), "call");
    }
}
