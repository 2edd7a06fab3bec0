//! Reading the blobs of a file one after the other, on a blocking thread, while they are fetched.

use std::{
    fs::File,
    io::{self, Read},
    sync::Arc,
};

use tokio::sync::mpsc;

use super::BlobStore;
use crate::storage::{objects::ObjectError, state::BlobRef};

/// Blobs that are fetched ahead of the reader.
const AHEAD: usize = 2;

pub(super) struct PartsReader {
    current: Option<File>,
    rest: mpsc::Receiver<File>,
}

impl PartsReader {
    /// The reader, and the work that feeds it: it ends when everything is read, when the reader is gone, or at the
    /// first blob that cannot be fetched; the reader sees the end of the file then.
    pub(super) fn open(
        blobs: Arc<BlobStore>,
        parts: Vec<BlobRef>,
    ) -> (Self, impl Future<Output = Result<(), ObjectError>>) {
        let (sender, rest) = mpsc::channel(AHEAD);
        let feed = async move {
            for part in &parts {
                if sender.send(blobs.open_file(part).await?).await.is_err() {
                    break;
                }
            }
            Ok(())
        };
        let reader = Self {
            current: None,
            rest,
        };
        (reader, feed)
    }

    /// Reads this file before all others.
    pub(super) fn after(mut self, first: Option<File>) -> Self {
        self.current = first;
        self
    }
}

impl Read for PartsReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(file) = &mut self.current {
                let read = file.read(buffer)?;
                if read > 0 || buffer.is_empty() {
                    return Ok(read);
                }
            }
            self.current = self.rest.blocking_recv();
            if self.current.is_none() {
                return Ok(0);
            }
        }
    }
}
