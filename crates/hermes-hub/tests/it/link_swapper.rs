//! Replaces directories and files by links while operations run.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Swaps two names repeatedly while it lives.
pub(crate) struct LinkSwapper {
    stop: Arc<AtomicBool>,
    swaps: Arc<AtomicU64>,
    thread: Option<thread::JoinHandle<()>>,
}

impl LinkSwapper {
    pub(crate) fn start(pairs: Vec<(PathBuf, PathBuf)>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let swaps = Arc::new(AtomicU64::new(0));
        let (stopped, count) = (stop.clone(), swaps.clone());
        let thread = thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                for (one, other) in &pairs {
                    if renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).is_ok() {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        Self {
            stop,
            swaps,
            thread: Some(thread),
        }
    }

    /// Stops it; returns the number of swaps.
    pub(crate) fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        self.swaps.load(Ordering::Relaxed)
    }
}

impl Drop for LinkSwapper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
