//! Events of files by inotify, without a thread. Only what ends a change is asked for: a process that writes to the
//! databases of its home, and keeps them open, is not woken by that.

use std::{
    ffi::{CStr, OsString},
    io,
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use tokio::io::{Interest, unix::AsyncFd};

/// What is read at once. The longest event, one with a name of 255 bytes, takes 272.
const BUFFER_SIZE: usize = 4096;

/// Events of some files of a directory.
pub(super) struct InotifyFileEvents {
    queue: OwnedFd,
    names: Vec<OsString>,
}

impl InotifyFileEvents {
    /// Begins to collect events.
    pub(super) fn new(home: &Path, names: Vec<OsString>) -> io::Result<Self> {
        let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        // A new file is written and closed too; only links are just created.
        let wanted = WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVE_SELF;
        inotify::add_watch(&queue, home, wanted | WatchFlags::ONLYDIR)?;
        Ok(Self { queue, names })
    }

    /// Resolves when one of the files may have changed; fails when there will be no more events. A wait that is given
    /// up loses no event.
    pub(super) async fn wait_for_event(&mut self) -> io::Result<()> {
        // Here and not at the beginning: a watch begins before there is a runtime.
        let queue = register(self.queue.as_fd())?;
        loop {
            let is_ours = queue
                .async_io(Interest::READABLE, |queue| self.read_events(*queue))
                .await?;
            if is_ours {
                return Ok(());
            }
        }
    }

    /// Reads what has happened, and tells whether one of the files may have changed. Where nothing has happened, it is
    /// the error `WouldBlock`.
    fn read_events(&self, queue: BorrowedFd<'_>) -> io::Result<bool> {
        let mut buffer = [MaybeUninit::<u8>::uninit(); BUFFER_SIZE];
        let mut reader = Reader::new(queue, &mut buffer);
        let mut is_ours = false;
        loop {
            let event = reader.next()?;
            let what = event.events();
            if what.intersects(ReadFlags::IGNORED | ReadFlags::MOVE_SELF) {
                let gone = "the directory was removed or moved";
                return Err(io::Error::new(io::ErrorKind::NotFound, gone));
            }
            // Events that did not fit in may have been ours.
            is_ours |= what.contains(ReadFlags::QUEUE_OVERFLOW)
                || event.file_name().is_some_and(|name| self.is_ours(name));
            if reader.is_buffer_empty() {
                return Ok(is_ours);
            }
        }
    }

    fn is_ours(&self, name: &CStr) -> bool {
        self.names
            .iter()
            .any(|ours| ours.as_bytes() == name.to_bytes())
    }
}

/// Lets the runtime tell when there are events.
#[expect(unsafe_code, reason = "a registration has no safe form")]
fn register(queue: BorrowedFd<'_>) -> io::Result<AsyncFd<BorrowedFd<'_>>> {
    // SAFETY: the file stays open for as long as it is borrowed, and a borrowed descriptor is always the same.
    Ok(unsafe { AsyncFd::register_with_interest(queue, Interest::READABLE)? })
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, File},
        io::{ErrorKind, Write as _},
        time::Duration,
    };

    use tempfile::TempDir;
    use tokio::{runtime::Builder, time::timeout};

    use super::*;

    /// Not reached by a loaded machine.
    const LIMIT: Duration = Duration::from_secs(30);

    fn watch(home: &Path) -> InotifyFileEvents {
        InotifyFileEvents::new(home, vec!["config.yaml".into(), ".env".into()]).unwrap()
    }

    async fn next_event(events: &mut InotifyFileEvents) -> io::Result<()> {
        timeout(LIMIT, events.wait_for_event()).await.unwrap()
    }

    /// The kernel queues an event before the call that causes it returns: if there is none now, there will be none.
    fn has_events(events: &InotifyFileEvents) -> bool {
        match events.read_events(events.queue.as_fd()) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                false
            }
        }
    }

    fn home_with(names: &[&str]) -> TempDir {
        let home = tempfile::tempdir().unwrap();
        for name in names {
            fs::write(home.path().join(name), "x").unwrap();
        }
        home
    }

    #[test]
    fn writes_to_databases_that_stay_open_wake_nobody() {
        let home = home_with(&["state.db-wal", "config.yaml"]);
        let path = home.path().join("state.db-wal");
        let mut database = File::options().append(true).open(&path).unwrap();
        let events = watch(home.path());
        for _ in 0..10 {
            database.write_all(b"a message").unwrap();
            database.sync_data().unwrap();
        }
        database.set_len(0).unwrap();
        fs::read(&path).unwrap();
        fs::read(home.path().join("config.yaml")).unwrap();
        assert!(!has_events(&events));
    }

    #[tokio::test]
    async fn other_files_are_passed_over() {
        let home = home_with(&["config.yaml"]);
        let mut events = watch(home.path());
        for name in ["state.db-journal", "config.yaml.bak", "config.yam", "env"] {
            fs::write(home.path().join(name), "x").unwrap();
        }
        fs::rename(home.path().join("env"), home.path().join("environment")).unwrap();
        assert!(!events.read_events(events.queue.as_fd()).unwrap());
        fs::write(home.path().join("notes.txt"), "x").unwrap();
        fs::write(home.path().join("config.yaml"), "y").unwrap();
        next_event(&mut events).await.unwrap();
        assert!(!has_events(&events), "all were read at once");
    }

    #[tokio::test]
    async fn every_way_to_change_a_file_is_an_event() {
        let home = home_with(&["config.yaml", "new", "target"]);
        let in_home = |name: &str| home.path().join(name);
        let config = in_home("config.yaml");
        let ways: [(&str, &dyn Fn() -> io::Result<()>); 7] = [
            ("written", &|| fs::write(&config, "y")),
            ("replaced", &|| fs::rename(in_home("new"), &config)),
            ("removed", &|| fs::remove_file(&config)),
            ("linked", &|| fs::hard_link(in_home("target"), &config)),
            ("moved away", &|| fs::rename(&config, in_home("old"))),
            ("linked by name", &|| {
                std::os::unix::fs::symlink("target", &config)
            }),
            ("the other file", &|| fs::write(in_home(".env"), "KEY=1")),
        ];
        let mut events = watch(home.path());
        for (name, change) in ways {
            assert!(!has_events(&events), "before: {name}");
            change().unwrap();
            let event = timeout(LIMIT, events.wait_for_event()).await;
            assert!(matches!(event, Ok(Ok(()))), "{name}: {event:?}");
        }
    }

    #[tokio::test]
    async fn a_writer_is_heard_when_it_closes_the_file() {
        let home = home_with(&["config.yaml"]);
        let path = home.path().join("config.yaml");
        let mut events = watch(home.path());
        let mut file = File::options().append(true).open(path).unwrap();
        file.write_all(b"y").unwrap();
        assert!(!has_events(&events));
        drop(file);
        next_event(&mut events).await.unwrap();
    }

    #[test]
    fn what_happens_before_there_is_a_runtime_is_not_missed() {
        let home = home_with(&["config.yaml"]);
        let mut events = watch(home.path());
        fs::write(home.path().join("config.yaml"), "y").unwrap();
        // It does not belong to the first runtime either.
        for _ in 0..2 {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(next_event(&mut events)).unwrap();
            fs::write(home.path().join(".env"), "KEY=1").unwrap();
        }
    }

    #[tokio::test]
    async fn a_full_queue_may_hide_a_change() {
        let home = home_with(&[]);
        let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let limit: usize = limit.trim().parse().unwrap();
        let mut events = watch(home.path());
        let path = home.path().join("state.db-journal");
        // Each time it is created, closed and removed.
        for _ in 0..=limit / 3 {
            fs::write(&path, "").unwrap();
            fs::remove_file(&path).unwrap();
        }
        next_event(&mut events).await.unwrap();
    }

    #[tokio::test]
    async fn a_directory_that_is_removed_or_moved_has_no_more_events() {
        let parent = tempfile::tempdir().unwrap();
        let (home, elsewhere) = (parent.path().join("home"), parent.path().join("elsewhere"));
        fs::create_dir(&home).unwrap();
        let mut events = watch(&home);
        fs::rename(&home, &elsewhere).unwrap();
        next_event(&mut events).await.unwrap_err();

        let mut events = watch(&elsewhere);
        fs::remove_dir(&elsewhere).unwrap();
        next_event(&mut events).await.unwrap_err();
    }

    #[test]
    fn only_a_directory_that_exists_is_watched() {
        let home = home_with(&["config.yaml"]);
        for name in ["missing", "config.yaml"] {
            assert!(InotifyFileEvents::new(&home.path().join(name), Vec::new()).is_err());
        }
    }
}
