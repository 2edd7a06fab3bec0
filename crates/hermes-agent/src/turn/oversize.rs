//! Keeps large results out of the conversation: the whole text goes to a file, the model sees its beginning.

use std::path::{Path, PathBuf};

use crate::tool::{ToolContext, ToolOutput};

/// How large results may be, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SizeLimits {
    /// One result.
    pub one: usize,
    /// All results of one message together.
    pub all: usize,
}

impl Default for SizeLimits {
    fn default() -> Self {
        Self {
            one: 100_000,
            all: 200_000,
        }
    }
}

impl SizeLimits {
    /// The limits for a model whose context has this many tokens: one result never takes more than a quarter.
    pub fn for_context(tokens: Option<u32>) -> Self {
        let usual = Self::default();
        let Some(tokens) = tokens.and_then(|tokens| usize::try_from(tokens).ok()) else {
            return usual;
        };
        // Four characters a token, a quarter of them.
        Self {
            one: usual.one.min(tokens),
            all: usual.all.min(tokens * 2),
        }
    }
}

/// What the model sees of a text that is kept in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Persisted {
    /// Where it is.
    pub path: PathBuf,
    /// What stands in its place.
    pub preview: String,
}

/// How much of a large text the model sees.
const PREVIEW: usize = 1_500;

/// Puts what is too large into files, the largest first.
pub(super) async fn shrink(
    mut outputs: Vec<ToolOutput>,
    limits: &SizeLimits,
    context: &ToolContext,
) -> Vec<ToolOutput> {
    let sizes: Vec<usize> = outputs
        .iter()
        .map(|output| output.text.chars().count())
        .collect();
    let mut total: usize = sizes.iter().sum();
    let mut by_size: Vec<usize> = (0..outputs.len())
        .filter(|index| outputs[*index].may_be_persisted)
        .collect();
    by_size.sort_by_key(|index| std::cmp::Reverse(sizes[*index]));
    for index in by_size {
        let is_too_large =
            sizes[index] > limits.one || (total > limits.all && sizes[index] > PREVIEW * 2);
        if !is_too_large {
            break;
        }
        let name = format!("{}-{index}", context.call_id);
        let text = std::mem::take(&mut outputs[index].text);
        outputs[index].text = match persist(context.home.path(), &name, &text).await {
            Ok(persisted) => persisted.preview,
            Err(error) => cut(&text, limits.one, &error.to_string()),
        };
        total = total.saturating_sub(sizes[index]) + PREVIEW;
    }
    outputs
}

/// Writes a text to the home's `results` and describes it.
async fn persist(home: &Path, name: &str, text: &str) -> std::io::Result<Persisted> {
    let safe: String = name
        .chars()
        .map(|letter| {
            if letter.is_ascii_alphanumeric() || letter == '-' {
                letter
            } else {
                '_'
            }
        })
        .collect();
    let directory = home.join("results");
    let path = directory.join(format!("{safe}.txt"));
    let (content, target) = (text.to_owned(), path.clone());
    let write = move || {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&directory)?;
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        std::io::Write::write_all(&mut options.open(target)?, content.as_bytes())
    };
    tokio::task::spawn_blocking(write)
        .await
        .map_err(std::io::Error::other)??;
    let beginning: String = text.chars().take(PREVIEW).collect();
    let preview = format!(
        "<persisted-output path=\"{}\" characters=\"{}\">\n{beginning}\n…\n</persisted-output>\nThe whole text is in that \
         file; read the parts you need.",
        path.display(),
        text.chars().count()
    );
    Ok(Persisted { path, preview })
}

fn cut(text: &str, limit: usize, reason: &str) -> String {
    let beginning: String = text.chars().take(limit).collect();
    format!("{beginning}\n[cut: the rest could not be kept in a file: {reason}]")
}
