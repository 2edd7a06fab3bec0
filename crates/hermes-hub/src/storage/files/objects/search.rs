//! Searching contents and names. Blobs are fetched ahead of the search, which runs on a blocking thread.

use std::{fs::File, ops::ControlFlow, sync::Arc};

use futures::{StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{ObjectShare, PartsReader, file_entry};
use crate::{
    Problem,
    storage::{
        files::{
            FindQuery, FindResult, GoGlob, GoRegex, GrepQuery, GrepResult, SharePath,
            budget::SearchBudget,
            directory::run_blocking,
            search::{TreeSearch, clamp_max_results},
        },
        objects::ObjectError,
        state::{BlobRef, IndexedContent, IndexedEntry},
    },
};

/// Entries that are read from the index at once.
const PAGE: usize = 500;
/// Files whose first blob is fetched at the same time.
const CONCURRENT_FETCHES: usize = 16;
/// Files that wait for the search.
const QUEUE: usize = 32;

/// A file to search; `None` if it cannot be read.
struct SearchItem {
    path: String,
    size: u64,
    content: Option<PartsReader>,
}

impl ObjectShare {
    pub(super) async fn grep(
        &self,
        search: GrepQuery,
        cancel: CancellationToken,
    ) -> Result<GrepResult, Problem> {
        let expression = GoRegex::compile(&search.pattern, search.case)?;
        let path = search.path.clone().unwrap_or_else(SharePath::root);
        let start = if path.is_root() {
            None
        } else {
            Some(self.find(&path).await?)
        };
        let most = clamp_max_results(search.max);
        let budget = SearchBudget::new(cancel);
        let deadline = tokio::time::Instant::from_std(budget.deadline());
        let (items, mut queue) = mpsc::channel::<SearchItem>(QUEUE);
        let hunt = run_blocking(move || {
            let mut hunt = TreeSearch::new(&expression, most, budget);
            while let Some(item) = queue.blocking_recv() {
                if !hunt.take_file() {
                    break;
                }
                let Some(content) = item.content else {
                    hunt.found.files_skipped += 1;
                    continue;
                };
                if let ControlFlow::Break(()) = hunt.search_file(&item.path, content, item.size) {
                    break;
                }
            }
            Ok(hunt.found)
        });
        let feed = tokio::time::timeout_at(deadline, self.feed_search(start, &path, items));
        let (outcome, found) = tokio::join!(feed, hunt);
        let mut found = found?;
        match outcome {
            Ok(fed_all) => fed_all?,
            // The time is over.
            Err(_) => found.truncated = true,
        }
        Ok(found)
    }

    /// Gives the search all files in order, until it has enough.
    async fn feed_search(
        &self,
        start: Option<IndexedEntry>,
        path: &SharePath,
        items: mpsc::Sender<SearchItem>,
    ) -> Result<(), Problem> {
        if let Some(file) = start.filter(|entry| !entry.content.is_dir()) {
            return self.feed_files(vec![file], &items).await.map(drop);
        }
        let mut after = String::new();
        loop {
            let page = self
                .index
                .entries_below(&self.group, path.as_str(), &after, PAGE)
                .await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            after.clone_from(&last.path);
            if self.feed_files(page, &items).await?.is_break() {
                return Ok(());
            }
        }
    }

    async fn feed_files(
        &self,
        page: Vec<IndexedEntry>,
        items: &mpsc::Sender<SearchItem>,
    ) -> Result<ControlFlow<()>, Problem> {
        let files = page.into_iter().filter_map(|entry| match entry.content {
            IndexedContent::Directory => None,
            IndexedContent::File(parts) => Some((entry.path, parts)),
        });
        let mut opened = stream::iter(files)
            .map(|(path, parts)| async move {
                let first = match parts.first() {
                    Some(part) => self.blobs.open_file(part).await.map(Some),
                    None => Ok(None),
                };
                (path, parts, first)
            })
            .buffered(CONCURRENT_FETCHES);
        while let Some((path, parts, first)) = opened.next().await {
            let flow = self.feed_file(path, parts, first, items).await?;
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    async fn feed_file(
        &self,
        path: String,
        parts: Vec<BlobRef>,
        first: Result<Option<File>, ObjectError>,
        items: &mpsc::Sender<SearchItem>,
    ) -> Result<ControlFlow<()>, Problem> {
        let size = parts.iter().map(|part| part.size).sum();
        let rest = parts.into_iter().skip(1).collect();
        let (content, feed) = PartsReader::open(Arc::clone(&self.blobs), rest);
        let content = match first {
            Ok(first) => Some(content.after(first)),
            Err(error) => {
                skip_damaged(&path, error)?;
                None
            }
        };
        let is_readable = content.is_some();
        let item = SearchItem {
            path: path.clone(),
            size,
            content,
        };
        if items.send(item).await.is_err() {
            return Ok(ControlFlow::Break(()));
        }
        if is_readable && let Err(error) = feed.await {
            skip_damaged(&path, error)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    pub(super) async fn find_paths(
        &self,
        find: FindQuery,
        cancel: CancellationToken,
    ) -> Result<FindResult, Problem> {
        let glob = find.name.as_deref().map(GoGlob::compile).transpose()?;
        let most = clamp_max_results(find.max);
        let path = find.path.unwrap_or_else(SharePath::root);
        self.expect_directory(&path).await?;
        let prefix = if path.is_root() {
            0
        } else {
            path.as_str().len() + 1
        };
        let mut budget = SearchBudget::new(cancel);
        let mut found = FindResult::default();
        let mut after = String::new();
        loop {
            let page = self
                .index
                .entries_below(&self.group, path.as_str(), &after, PAGE)
                .await?;
            let Some(last) = page.last() else {
                return Ok(found);
            };
            after.clone_from(&last.path);
            for entry in &page {
                let is_over = !budget.take_file();
                let is_match = glob
                    .as_ref()
                    .is_none_or(|glob| glob.matches(&entry.path[prefix..]));
                if is_over || is_match && found.paths.len() == most {
                    found.truncated = true;
                    return Ok(found);
                }
                if is_match {
                    found.paths.push(file_entry(entry));
                }
            }
        }
    }
}

/// A file that is damaged is skipped like one that is not text; storage that does not answer fails the search.
fn skip_damaged(path: &str, error: ObjectError) -> Result<(), Problem> {
    match error {
        ObjectError::Damaged { .. } | ObjectError::Missing { .. } => {
            tracing::error!(path, %error, "a blob of a share is damaged");
            Ok(())
        }
        error => Err(error.into()),
    }
}
